// SPDX-License-Identifier: Apache-2.0
// Bridges of ours for ranges that are over. Their addresses keep a route to such a range on the node, and by now
// another node may have it.

import { includes, parseCidr } from '../../cni/model/address.ts'
import type { NetworkSpec } from '../model/attachment.ts'
import type { ObservedLink, ObservedNamespace } from '../model/observed.ts'

/** `ranges`: those that are over; `inUse`: bridges that networks or attachments have; `ownMac`: as trestle gives it. */
export interface FormerFacts {
  readonly host: ObservedNamespace
  readonly ranges: readonly string[]
  readonly inUse: ReadonlySet<string>
  readonly ownMac: (bridge: string) => string
}

/** Bridges that trestle made, with nothing plugged in and addresses of these ranges alone. */
export function formerBridges({ host, ranges, inUse, ownMac }: FormerFacts): readonly string[] {
  const links = [...host.links.values()]
  const isFormer = ({ name, kind, mac, addresses }: ObservedLink) =>
    kind === 'bridge' && !inUse.has(name) && mac === ownMac(name) && areOf(addresses, ranges)
  const hasPorts = ({ name }: ObservedLink) => links.some(({ master }) => master === name)
  return links.filter((link) => isFormer(link) && !hasPorts(link)).map(({ name }) => name)
}

/** Whether the network's bridge has addresses of these ranges alone. */
export function isOfRanges({ bridge }: NetworkSpec, ranges: readonly string[]): boolean {
  return bridge !== undefined && areOf(bridge.addresses, ranges)
}

const linkLocal = parseCidr('fe80::/10')

function areOf(addresses: readonly string[], ranges: readonly string[]): boolean {
  const cidrs = ranges.flatMap((text) => parseCidr(text) ?? [])
  const own = addresses
    .flatMap((text) => parseCidr(text) ?? [])
    .filter((address) => linkLocal === undefined || !includes(linkLocal, address))
  return own.length > 0 && own.every((address) => cidrs.some((range) => includes(range, address)))
}
