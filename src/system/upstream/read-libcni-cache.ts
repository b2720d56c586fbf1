// SPDX-License-Identifier: Apache-2.0
// Reads libcni's cache of attachments (plan/upstream/libcni-cache.ts says what is in an entry).

import { type CachedAttachment, cacheFileName, networkNamed, readCached } from '../../plan/upstream/libcni-cache.ts'
import { namesIn, readableText } from '../files/files.ts'

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
    const text = readableText(`${cacheDirectory}/${name}`) ?? ''
    const network = networkNamed(text)
    return network === undefined ? [] : (readCached(name, text, network) ?? [])
  })
}

function readEntry(name: string, network: string): CachedAttachment | undefined {
  const text = readableText(`${cacheDirectory}/${name}`)
  return text === undefined ? undefined : readCached(name, text, network)
}
