// SPDX-License-Identifier: Apache-2.0
// What there is to remove of one attachment, by its record, or where that was lost by its ids, by which its links
// are called and its reservations are found.

import { bareAddress } from '../../cni/address.ts'
import { linkRemovals, podTeardownOps, teardownOps } from '../../drivers/attach.ts'
import { hairpinLink } from '../../features/hairpin.ts'
import { loopbackGuard } from '../../features/host-ports.ts'
import { conditionChains } from '../../features/port-conditions.ts'
import type { AttachmentKey, HostPort } from '../../model/attachment.ts'
import { elementOps } from '../../model/elements.ts'
import { hostLinkName, ifbName } from '../../model/names.ts'
import type { Op } from '../../model/op.ts'
import type { AttachmentRecord } from '../../model/record.ts'

/** Addresses without prefix length, and after how many seconds they may be given out again. */
interface Reserved {
  readonly ports: readonly HostPort[]
  /** Absent: those that say they are its own. */
  readonly addresses?: readonly string[]
  readonly cooldownS: number
}

/** What a teardown needs to know. */
export interface Removal {
  readonly key: AttachmentKey
  /** Links of ours, settings of links that stay, and elements of our rules. */
  readonly host: readonly Op[]
  /** What does not go with an interface of ours, in a sandbox that lives on. */
  readonly pod: readonly Op[]
  /** Chains of port conditions, which others may have too. */
  readonly chains: readonly string[]
  /** Absent: what says that it is its own, and the elements that lead there. */
  readonly reserved?: Reserved
  /** What the upstream plugins keep for an attachment that was taken over from them. `dataDir`: host-local's. */
  readonly upstream?: { readonly dataDir: string; readonly addresses: readonly string[] }
  /** There is a record, where what fails is written down, and which goes last. */
  readonly hasRecord: boolean
  /** Who rebuilds the rules of all pods leaves it out already. */
  readonly isLeftOut: boolean
}

/** By its record. `group`: a link group that is the caller's alone. */
export function removalOf(
  record: Pick<AttachmentRecord, 'key' | 'spec' | 'pendingCleanup' | 'adopted' | 'delegatedIpam'>,
  group: number,
): Removal {
  const { key, spec, pendingCleanup, adopted, delegatedIpam } = record
  if (spec === undefined) return { ...removalFromIds(key, group), hasRecord: true }
  const addresses = spec.ips.map(({ address }) => bareAddress(address))
  // The interface comes before the plugin's addresses: an ADD may have ended after reserving, before writing them down.
  const isUnknown = delegatedIpam !== undefined && addresses.length === 0
  return {
    key,
    host: teardownOps(spec, group),
    pod: podTeardownOps(spec),
    chains: conditionChains(spec.hostPorts),
    reserved: { ports: spec.hostPorts?.ports ?? [], ...(!isUnknown && { addresses }), cooldownS: spec.cooldownS },
    ...(adopted && { upstream: { dataDir: adopted.dataDir, addresses } }),
    hasRecord: true,
    isLeftOut: pendingCleanup !== undefined,
  }
}

/** By its ids alone. Only a main attachment has links; a chained one shares its ids with it. */
export function removalFromIds(key: AttachmentKey, group: number): Removal {
  const links = key.role === 'main' ? [hostLinkName(key), ifbName(key)] : []
  return { key, host: linkRemovals(links, group), pod: [], chains: [], hasRecord: false, isLeftOut: true }
}

/** Removes links that are no attachment's, one by one. */
export function removeLinks(links: readonly string[]): readonly Op[] {
  return links.map((dev): Op => ({ in: 'host', kind: 'link.del', dev, why: `remove ${dev}` }))
}

/** Removes the links of a network without attachments. `rules`: those that stay, filled anew. */
export function emptyNetworkOps(links: readonly string[], rules: readonly Op[]): readonly Op[] {
  const guards = elementOps([...links.map(loopbackGuard), ...links.map(hairpinLink)], 'nft.del')
  return [...removeLinks(links), ...rules, ...guards]
}
