// SPDX-License-Identifier: Apache-2.0
// Reads libcni's cache of attachments (plan/upstream/libcni-cache.ts says what is in an entry).

import { type CachedAttachment, cacheFileName, readCached } from '../../plan/upstream/libcni-cache.ts'
import { isSinceBoot, namesIn, readableText } from '../files/files.ts'
import { ofHost } from '../process/process-identity.ts'

/** Where libcni keeps its cache (docs/design.md, "libcni's cache"): by default, for cri-dockerd, and for Multus. */
const cacheDirectories = () =>
  ['/var/lib/cni/results', '/var/lib/cni/cache/results', '/var/lib/cni/multus/results'].map(ofHost)

type CacheKey = Pick<CachedAttachment, 'network' | 'containerId' | 'ifName'>

export function cachedAttachment(key: CacheKey): CachedAttachment | undefined {
  return readEntry(cacheFileName(key.network, key.containerId, key.ifName), key.network)
}

export function cachedAttachments(network: string): readonly CachedAttachment[] {
  const names = cacheNames().filter((name) => name.startsWith(`${network}-`))
  return names.flatMap((name) => readEntry(name, network) ?? [])
}

/** Every attachment that libcni remembers, of all networks. */
export function allCachedAttachments(): readonly CachedAttachment[] {
  return cacheNames().flatMap((name) => readEntry(name) ?? [])
}

/** Whether libcni wrote the entry since the machine started: its cache outlives that, and a PID names another then. */
export function isOfThisBoot({ network, containerId, ifName }: CacheKey): boolean {
  const name = cacheFileName(network, containerId, ifName)
  return cacheDirectories().some((directory) => isSinceBoot(`${directory}/${name}`))
}

function readEntry(name: string, network?: string): CachedAttachment | undefined {
  const text = entryText(name)
  return text === undefined ? undefined : readCached(text, network)
}

function cacheNames(): readonly string[] {
  return [...new Set(cacheDirectories().flatMap((directory) => namesIn(directory)))]
}

function entryText(name: string): string | undefined {
  for (const directory of cacheDirectories()) {
    const text = readableText(`${directory}/${name}`)
    if (text !== undefined) return text
  }
  return undefined
}
