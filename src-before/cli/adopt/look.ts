// SPDX-License-Identifier: Apache-2.0
// Compares libcni's cache with the kernel: `adopt` takes a pod over only if its namespace, interface, addresses and
// host link all match the cache.

import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { bareAddress } from '../../cni/address.ts'
import { CniError, oneLine } from '../../cni/error.ts'
import type { AttachmentKey } from '../../model/attachment.ts'
import type { ObservedLink } from '../../model/observed.ts'
import type { AttachmentRecord, NetnsIdentity } from '../../model/record.ts'
import { type CachedAttachment, cachedTypes, endsOf, isPartOurs, podIpsOf } from '../../plan/upstream/libcni-cache.ts'
import { namesIn } from '../../system/files/files.ts'
import { networkFiles } from '../../system/files/state.ts'
import { closeNetns, identityOfNetns, netnsState, openNetns } from '../../system/kernel/netns.ts'
import type { Run } from '../../system/process/runner.ts'
import { findRecords } from '../../system/store/records.ts'
import { cachedAttachments } from '../../system/upstream/read-libcni-cache.ts'
import { podNetns, readDocuments, readLinks } from '../../tools/ip.ts'
import { isOwnType } from '../node/own-type.ts'
import type { Progress } from '../shell/output.ts'

/** A pod that matches its cache entry. `host`, `pod`: the ends of its veth pair. */
export interface LivePod {
  readonly cached: CachedAttachment
  readonly netns: NetnsIdentity
  readonly host: ObservedLink
  readonly pod: ObservedLink
}

/** The state of an attachment of libcni's cache: `unclear` when the pod lives and differs from the cache. */
export type Found =
  | { readonly kind: 'live'; readonly cached: CachedAttachment; readonly live: LivePod }
  | { readonly kind: 'ours'; readonly cached: CachedAttachment; readonly record: AttachmentRecord }
  | { readonly kind: 'gone'; readonly cached: CachedAttachment }
  | { readonly kind: 'unclear'; readonly cached: CachedAttachment; readonly why: string }

/** Inputs of a look. `links`: links of the host; `progress`: receives the object under inspection. */
export interface Looking {
  readonly links: ReadonlyMap<string, ObservedLink>
  readonly progress: Progress
}

/** Every attachment of the upstream chain to the network in libcni's cache. */
export async function lookAtNetwork(
  run: Run,
  network: string,
  { links, progress }: Looking,
): Promise<readonly Found[]> {
  const found: Found[] = []
  const isOurs = (entry: CachedAttachment) => isPartOurs(entry) || cachedTypes(entry).some(isOwnType)
  const remembered = cachedAttachments(network).filter((entry) => !isOurs(entry))
  for (const [at, each] of remembered.entries()) {
    progress(`${network}: looking at pod ${at + 1} of ${remembered.length}, ${each.containerId}`)
    found.push(await lookAtPod(run, each, links))
  }
  return found
}

/** The key that trestle's own record of the attachment would have. */
export function keyOf({ network, containerId, ifName }: CachedAttachment): AttachmentKey {
  return { network, containerId, ifName, role: 'main' }
}

/**
 * The addresses in all network namespaces of processes and of names under /run/netns, except this process's namespace.
 * Throws where a namespace cannot be looked into: a live pod may be in there.
 */
export async function addressesInUse(run: Run, progress: Progress): Promise<ReadonlySet<string>> {
  const used = new Set<string>()
  const paths = namespacePaths()
  for (const [at, path] of paths.entries()) {
    progress(`looking at network namespace ${at + 1} of ${paths.length}, ${path}`)
    for (const link of (await linksOf(run, path)).values()) {
      for (const cidr of link.addresses) used.add(bareAddress(cidr))
    }
  }
  return used
}

async function lookAtPod(run: Run, cached: CachedAttachment, links: ReadonlyMap<string, ObservedLink>): Promise<Found> {
  const record = findRecords(networkFiles(cached.network), keyOf(cached)).find((stored) => !stored.isPending)?.record
  if (record !== undefined) return { kind: 'ours', cached, record }
  if (cached.netns === '') return { kind: 'unclear', cached, why: "libcni's cache has no namespace of the pod" }
  const identity = identityOfNetns(cached.netns)
  const state = netnsState(identity.path === '' ? { path: cached.netns, inode: 0 } : identity)
  if (state === 'gone') return { kind: 'gone', cached }
  if (state === 'unknown')
    return { kind: 'unclear', cached, why: `${cached.netns} is no network namespace of this machine` }
  let pod: ObservedLink | undefined
  try {
    pod = (await linksOf(run, cached.netns)).get(cached.ifName)
  } catch (error) {
    return { kind: 'unclear', cached, why: (error as Error).message }
  }
  const host = links.get(endsOf(cached).host?.name ?? '')
  const why = mismatch(cached, pod, host)
  if (pod === undefined || host === undefined || why !== undefined)
    return { kind: 'unclear', cached, why: why ?? 'the links of the pod are gone' }
  return { kind: 'live', cached, live: { cached, netns: identity, host, pod } }
}

/** The first difference between a pod and its cache entry; undefined when both match. */
function mismatch(
  cached: CachedAttachment,
  pod: ObservedLink | undefined,
  host: ObservedLink | undefined,
): string | undefined {
  const ends = endsOf(cached)
  if (pod === undefined) return `${cached.ifName} is not in ${cached.netns}`
  if (ends.host === undefined) return "libcni's cache has no host link of the pod"
  if (host === undefined) return `${ends.host.name} is not on the host`
  if (pod.kind !== 'veth' || host.kind !== 'veth') return `${pod.name} is no veth`
  if (pod.peerIndex !== host.index || host.peerIndex !== pod.index)
    return `${host.name} is not the other end of ${pod.name}`
  if (ends.host.mac !== undefined && ends.host.mac.toLowerCase() !== host.mac) return `${host.name} has another MAC`
  const there = pod.addresses
  const lost = podIpsOf(cached).find(({ address }) => !there.includes(address))
  return lost === undefined ? undefined : `${lost.address} is not on ${pod.name}`
}

/** The links in a namespace; none where it is gone. Throws when its links cannot be seen. */
async function linksOf(run: Run, path: string): Promise<ReadonlyMap<string, ObservedLink>> {
  let netns: ReturnType<typeof openNetns>
  try {
    netns = openNetns(path)
  } catch (error) {
    if (inodeOf(path) === undefined) return new Map()
    throw error
  }
  try {
    const args = [`--net=${podNetns}`, '--', 'ip', '-j', '-d', 'addr', 'show']
    const { code, stdout, stderr } = await run({ file: 'nsenter', args, netnsFd: netns.fd })
    if (code === 0) return readLinks(readDocuments(stdout))
    throw new CniError(
      'network-not-seen',
      `cannot look into ${path}: ${oneLine(stderr) || `nsenter exits with ${code}`}`,
    )
  } finally {
    closeNetns(netns)
  }
}

/** One path for each namespace, though many processes share one. Process 1 is in no pod, and may be hidden from root. */
function namespacePaths(): readonly string[] {
  const named = namesIn('/run/netns').map((name) => `/run/netns/${name}`)
  const running = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== '1')
  const ownInode = statSync('/proc/self/ns/net').ino
  const byInode = new Map<number, string>()
  for (const path of [...named, ...running.map((pid) => `/proc/${pid}/ns/net`)]) {
    const inode = inodeOf(path)
    if (inode !== undefined && inode !== ownInode && !byInode.has(inode)) byInode.set(inode, path)
  }
  return [...byInode.values()]
}

/** Undefined where the namespace's file is gone: a process that ends during the look is denied, not absent. */
function inodeOf(path: string): number | undefined {
  try {
    return statSync(path).ino
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || !existsSync(dirname(dirname(path)))) return undefined
    throw error
  }
}
