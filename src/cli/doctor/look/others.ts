// SPDX-License-Identifier: Apache-2.0
// Pods of other plugins, which are not compared with the kernel: said, so that nobody takes it for an all-clear.

import { cachedTypes, isPartOurs } from '../../../plan/upstream/libcni-cache.ts'
import { identityOfNetns, netnsState } from '../../../system/kernel/netns.ts'
import { allCachedAttachments } from '../../../system/upstream/libcni-cache.ts'
import type { NotLooked } from './facts.ts'

/**
 * One reason for all such pods that live, by libcni's results; none where there is no such pod. `lo` is no pod's
 * network: containerd attaches it to each pod, also to those of trestle, as a network `cni-loopback`
 * (containerd/go-cni, WithLoNetwork).
 */
export function podsOfOthers(): readonly NotLooked[] {
  const cached = allCachedAttachments().filter(({ ifName, netns }) => ifName !== 'lo' && isLive(netns))
  const others = cached.filter((attachment) => !isPartOurs(attachment))
  const types = [...new Set(others.flatMap((attachment) => cachedTypes(attachment).slice(0, 1)))].toSorted()
  return types.length === 0
    ? []
    : [{ group: 'network', why: `pods of ${types.join(', ')} are not compared with the kernel`, isPartial: true }]
}

function isLive(path: string): boolean {
  return path !== '' && netnsState(identityOfNetns(path)) === 'live'
}
