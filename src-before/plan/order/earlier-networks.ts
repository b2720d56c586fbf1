// SPDX-License-Identifier: Apache-2.0
// A configuration that is edited while pods live: what those that were made with the old one still need
// of bridge and rules. Nothing of it is written down: every record has the network of its ADD.

import { bareAddress, formatCidr, includes, isOverlap, parseCidr, subtract } from '../../cni/address.ts'
import { defined } from '../../cni/json.ts'
import { gatewayLink } from '../../features/bridge-port.ts'
import { acceptedOf, newConnections } from '../../features/firewall.ts'
import type { BridgeSpec, NetworkSpec } from '../../model/attachment.ts'
import type { ObservedLink, ObservedNamespace } from '../../model/observed.ts'
import { addressesInTheWay } from '../ipam/bridge-addresses.ts'

/**
 * The parts of `made`, networks as live attachments were made with them (newest first), that `current`, the networks
 * as they are configured now, does not cover: a bridge of another name or VLAN, gateways that are none of today's, and
 * the ranges that are in none of today's.
 * ipMasq that was switched off is off for these, too, unless today's place and range are others altogether: two
 * configurations with one name, where each ADD would undo the other's, or a mode that does not read ipMasq. The ranges
 * are apart from those of `current`: an ADD says its elements without looking, and interval sets refuse an overlap.
 */
export function earlierNetworks(current: readonly NetworkSpec[], made: readonly NetworkSpec[]): readonly NetworkSpec[] {
  const now = new Map(current.map((network) => [network.name, network]))
  // Gateways of a network on a link, of today and newer: other networks have theirs beside them.
  const newer = new Map<string, readonly string[]>(
    current.map((network) => [placeOf(network), network.bridge?.addresses ?? []]),
  )
  const seen = new Set<string>()
  return made.flatMap((old) => {
    const text = JSON.stringify({ ...old, bridge: old.bridge && [placeOf(old), old.bridge.addresses] })
    const today = now.get(old.name)
    if (today === undefined || seen.has(text)) return []
    seen.add(text)
    const place = placeOf(old)
    // Of chained pods the policy alone has moved: their bridge is not ours.
    const isMoved = !newer.has(place) && (old.bridge ?? (today.ingressPolicy && old.ingressPolicyLink)) !== undefined
    const there = newer.get(place) ?? []
    const addresses = gatewaysBeside(there, old.bridge)
    newer.set(place, [...there, ...addresses])
    const bridge = place === placeOf(today) ? today.bridge : old.bridge
    const left = bridge !== undefined && (isMoved || addresses.length > 0) ? { ...bridge, addresses } : undefined
    return partOf({ old, today, current, isMoved, bridge: left })
  })
}

/** A network and the link by which the host routes to its pods. */
function placeOf({ name, bridge, ingressPolicyLink }: NetworkSpec): string {
  return `${name} ${bridge === undefined ? ingressPolicyLink : gatewayLink(bridge)}`
}

/** Gateways of a bridge that newer ones of the same network have not replaced. */
function gatewaysBeside(newer: readonly string[], bridge: BridgeSpec | undefined): readonly string[] {
  const addresses = bridge?.addresses ?? []
  const replaced = addressesInTheWay(addresses, newer)
  return addresses.filter((address) => !newer.includes(address) && !replaced.includes(address))
}

/** An attachment: the network of its ADD, what it needs of that beyond today's (`earlierNetworks`), its addresses. */
interface Made {
  readonly made: NetworkSpec
  readonly part: NetworkSpec | undefined
  readonly addresses: readonly string[]
}

/**
 * What an attachment has of its network today, `now`, and of before. An address of the same link that was replaced
 * (forceAddress), also by one whose prefix leaves the attachment out, was its gateway.
 */
export function asEarlier(now: NetworkSpec, { made, part, addresses }: Made): NetworkSpec {
  if (made.bridge === undefined || now.bridge === undefined || placeOf(made) !== placeOf(now)) return part ?? now
  const today = now.bridge.addresses
  const gone = made.bridge.addresses.filter((gateway) => {
    const pods = addresses.filter((address) => isOverlap(gateway, address))
    const isThere = (cidr: string) => pods.every((address) => isOverlap(cidr, address))
    return !today.some((cidr) => bareAddress(cidr) === bareAddress(gateway) && isThere(cidr))
  })
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
  /** With the gateways that are left. */
  readonly bridge: BridgeSpec | undefined
}

function partOf({ old, today, current, isMoved, bridge }: Part): readonly NetworkSpec[] {
  const isOther = isAnother(old, today)
  const isLeft = (now: unknown) => isOther || now !== undefined
  const subnets = isLeft(today.masquerade)
    ? without(old.masquerade?.subnets, current, ({ masquerade }) => masquerade?.subnets)
    : []
  const hairpin = isLeft(today.hairpin) ? without(old.hairpin, current, (each) => each.hairpin) : []
  const accepts = acceptsOf({ old, today, current }, isOther)
  if (!isMoved && (bridge ?? accepts) === undefined && subnets.length + hairpin.length === 0) return []
  const noMasquerade = [
    ...new Set([...(old.masquerade?.noMasquerade ?? []), ...(today.masquerade?.noMasquerade ?? [])]),
  ]
  const part: NetworkSpec = {
    name: old.name,
    forwarding: old.forwarding,
    ...defined({ bridge }),
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
function acceptsOf(
  { old, today, current }: Omit<Part, 'isMoved' | 'bridge'>,
  isOther: boolean,
): AcceptPart | undefined {
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

/**
 * Whether today's network is another one under the same name: in another place, without any range of the old one. In a
 * place without gateways on the host (macvlan, host-device, layer 2) nothing is said of the old ranges.
 */
function isAnother(old: NetworkSpec, today: NetworkSpec): boolean {
  const isRouted = old.ranges !== undefined
  // Chained networks have no place of ours.
  if (old.bridge === undefined && !isRouted) return false
  const isElsewhere = placeOf(old) !== placeOf(today) || (isRouted && today.ranges === undefined)
  return isElsewhere && !gatewaysOf(old).some((one) => gatewaysOf(today).some((other) => isOverlap(one, other)))
}

function gatewaysOf({ bridge, ranges }: NetworkSpec): readonly string[] {
  return bridge?.addresses ?? ranges ?? []
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
interface FormerFacts {
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
