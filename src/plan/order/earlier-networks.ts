// SPDX-License-Identifier: Apache-2.0
// A configuration that is edited while pods live: what those that were made with the old one still need
// of bridge and rules. Nothing of it is written down: every record has the network of its ADD.

import { bareAddress, formatCidr, includes, overlaps, parseCidr, subtract } from '../../cni/address.ts'
import { defined } from '../../cni/json.ts'
import { acceptedOf, newConnections } from '../../features/firewall.ts'
import type { BridgeSpec, NetworkSpec } from '../../model/attachment.ts'
import type { ObservedLink, ObservedNamespace } from '../../model/observed.ts'
import { addressesInTheWay } from '../ipam/bridge-addresses.ts'

/**
 * The parts of `made`, networks as live attachments were made with them (newest first), that `current`, the networks
 * as they are configured now, does not cover: a bridge of another name, and the ranges that are in none of today's.
 * ipMasq that was switched off is off for these, too, unless today's bridge and range are others altogether: two
 * configurations with one name, where each ADD would undo the other's. The ranges are apart from those
 * of `current`: an ADD says its elements without looking, and interval sets refuse an overlap.
 */
export function earlierNetworks(current: readonly NetworkSpec[], made: readonly NetworkSpec[]): readonly NetworkSpec[] {
  const now = new Map(current.map((network) => [network.name, network]))
  const moved = new Set<string>()
  const seen = new Set<string>()
  return made.flatMap((given) => {
    const name = JSON.stringify({ ...given, bridge: given.bridge?.name })
    const today = now.get(given.name)
    if (today === undefined || seen.has(name)) return []
    seen.add(name)
    const bridge = given.bridge && besideOthers(given.bridge, current)
    // Of chained pods the policy alone has moved: their bridge is not ours.
    const link = bridge?.name ?? (today.ingressPolicy && given.ingressPolicyLink)
    const isMoved = link !== undefined && link !== (today.bridge?.name ?? today.ingressPolicyLink) && !moved.has(link)
    if (isMoved) moved.add(link)
    const old = bridge === undefined ? given : { ...given, bridge }
    return partOf({ old, today, current, isMoved })
  })
}

/** A bridge with those of its gateways that the networks of today leave there; undefined without any. */
function besideOthers(bridge: BridgeSpec, current: readonly NetworkSpec[]): BridgeSpec | undefined {
  const here = current.flatMap((network) => (network.bridge?.name === bridge.name ? network.bridge.addresses : []))
  const gone = addressesInTheWay(bridge.addresses, here)
  if (gone.length === 0) return bridge
  const addresses = bridge.addresses.filter((address) => !gone.includes(address))
  return addresses.length === 0 ? undefined : { ...bridge, addresses }
}

/**
 * What an attachment of the network `made` has of it today, `now`, and of `part`, what it needs of before. An address
 * of the same bridge that was replaced (forceAddress) was its gateway.
 */
export function asEarlier(now: NetworkSpec, made: NetworkSpec, part: NetworkSpec | undefined): NetworkSpec {
  if (part?.bridge !== undefined || now.bridge === undefined) return part ?? now
  const there = new Set(now.bridge.addresses.map(bareAddress))
  const isSame = made.bridge?.name === now.bridge.name
  const gone = isSame ? (made.bridge?.addresses ?? []).filter((cidr) => !there.has(bareAddress(cidr))) : []
  if (part === undefined && gone.length === 0) return now
  return { ...now, ...part, bridge: { ...now.bridge, addresses: [...now.bridge.addresses, ...gone] } }
}

/** The network with the accepts of its earlier ones: what is put in chains of others is told by one name or list. */
export function acceptingAll(network: NetworkSpec, earlier: readonly NetworkSpec[]): NetworkSpec {
  const theirs = earlier.filter(({ name }) => name === network.name).flatMap(acceptedOf)
  if (theirs.length === 0) return network
  const { hostAccept: _, ...rest } = network
  return { ...rest, acceptSubnets: [...new Set([...acceptedOf(network), ...theirs])] }
}

/** Links and subnets alike are in `acceptSubnets`. */
type AcceptPart = Pick<NetworkSpec, 'acceptMarkBit' | 'acceptNew' | 'acceptSubnets'>

interface Part {
  readonly old: NetworkSpec
  readonly today: NetworkSpec
  readonly current: readonly NetworkSpec[]
  readonly isMoved: boolean
}

function partOf({ old, today, current, isMoved }: Part): readonly NetworkSpec[] {
  const isOther = isMoved && areApart(old.bridge?.addresses ?? [], today.bridge?.addresses ?? [])
  const isLeft = (now: unknown) => isOther || now !== undefined
  const subnets = isLeft(today.masquerade)
    ? without(old.masquerade?.subnets, current, ({ masquerade }) => masquerade?.subnets)
    : []
  const hairpin = isLeft(today.hairpin) ? without(old.hairpin, current, (each) => each.hairpin) : []
  const accepts = acceptsOf({ old, today, current, isMoved }, isOther)
  if (!isMoved && subnets.length + hairpin.length === 0 && accepts === undefined) return []
  const noMasquerade = [
    ...new Set([...(old.masquerade?.noMasquerade ?? []), ...(today.masquerade?.noMasquerade ?? [])]),
  ]
  const part: NetworkSpec = {
    name: old.name,
    forwarding: old.forwarding,
    ...(isMoved && old.bridge ? { bridge: old.bridge } : {}),
    ...(subnets.length > 0 ? { masquerade: { subnets, noMasquerade } } : {}),
    // Without subnets the entry is for the bridge's name alone (`hairpinElements`).
    ...(hairpin.length > 0 || (isMoved && old.hairpin && isLeft(today.hairpin)) ? { hairpin } : {}),
    ...(old.ingressPolicy && (isOther || (isMoved && today.ingressPolicy)) ? { ingressPolicy: old.ingressPolicy } : {}),
    ...defined({ ingressPolicyLink: old.ingressPolicyLink, gatewayLink: old.gatewayLink }),
    ...accepts,
    removeWhenEmpty: false,
  }
  return [part]
}

/**
 * What other firewalls are to let pass for it: links and subnets that are none of today's, and new connections to
 * ranges that are none of today's, as today's configuration says.
 */
function acceptsOf({ old, today, current }: Part, isOther: boolean): AcceptPart | undefined {
  if (!isOther && acceptedOf(today).length === 0) return undefined
  const isSubnet = (text: string) => text.includes('/')
  const links = acceptedOf(old).filter((text) => !isSubnet(text) && !acceptedOf(today).includes(text))
  const subnets = without(acceptedOf(old).filter(isSubnet), current, (each) => acceptedOf(each).filter(isSubnet))
  const { from } = newConnections(isOther ? old : today)
  const isOpen = isOther || today.acceptNew !== 'none'
  const to = isOpen ? without(newConnections(old).to, current, (each) => newConnections(each).to) : []
  const acceptSubnets = [...links, ...subnets]
  if (acceptSubnets.length + to.length === 0) return undefined
  return {
    ...(acceptSubnets.length > 0 ? { acceptSubnets } : {}),
    acceptNew: to.length > 0 ? { to, from } : 'none',
    ...(today.acceptMarkBit === undefined ? {} : { acceptMarkBit: today.acceptMarkBit }),
  }
}

/** Whether no range of the one is in the other's. Without addresses there is nothing to tell. */
function areApart(old: readonly string[], now: readonly string[]): boolean {
  if (old.length === 0 || now.length === 0) return false
  const ranges = now.flatMap((text) => parseCidr(text) ?? [])
  return !old.flatMap((text) => parseCidr(text) ?? []).some((cidr) => ranges.some((range) => overlaps(cidr, range)))
}

/** What of `subnets` is in none of the same list of the current networks. */
function without(
  subnets: readonly string[] | undefined,
  current: readonly NetworkSpec[],
  listOf: (network: NetworkSpec) => readonly string[] | undefined,
): readonly string[] {
  const holes = current.flatMap((network) => listOf(network) ?? []).flatMap((text) => parseCidr(text) ?? [])
  const left = holes.reduce(
    (rest, hole) => rest.flatMap((cidr) => subtract(cidr, hole)),
    (subnets ?? []).flatMap((text) => parseCidr(text) ?? []),
  )
  return left.map(formatCidr)
}

// Bridges of ours for ranges that are over. Their addresses keep a route to such a range on the node, and by now
// another node may have it.

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
