// SPDX-License-Identifier: Apache-2.0
// Reads libcni's cache of attachments (plan/upstream/libcni-cache.ts says what is in an entry).

import { type CachedAttachment, cacheFileName, networkNamed, readCached } from '../../plan/upstream/libcni-cache.ts'
import { namesIn, readText } from '../files/files.ts'

/** Where libcni keeps its cache (docs/design.md, "libcni's cache"). */
const cacheDirectory = '/var/lib/cni/results'

export function cachedAttachment(key: {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
}): CachedAttachment | undefined {
  return readEntry(cacheFileName(key.network, key.containerId, key.ifName), key.network)
}

export function cachedAttachments(network: string): readonly CachedAttachment[] {
  const names = namesIn(cacheDirectory).filter((name) => name.startsWith(`${network}-`))
  return names.flatMap((name) => readEntry(name, network) ?? [])
}

/** Every attachment that libcni remembers, of all networks; entries of old versions do not name theirs. */
export function allCachedAttachments(): readonly CachedAttachment[] {
  return namesIn(cacheDirectory).flatMap((name) => {
    const found = readText(`${cacheDirectory}/${name}`)
    if (found === undefined || found === 'unreadable') return []
    const network = networkNamed(found.text)
    return network === undefined ? [] : (readCached(name, found.text, network) ?? [])
  })
}

function readEntry(name: string, network: string): CachedAttachment | undefined {
  const found = readText(`${cacheDirectory}/${name}`)
  return found === undefined || found === 'unreadable' ? undefined : readCached(name, found.text, network)
}
