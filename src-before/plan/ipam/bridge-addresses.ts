// SPDX-License-Identifier: Apache-2.0
// What to do about addresses that are on a bridge already, or on its link in a VLAN: upstream's ensureAddr
// (plugins/main/bridge/bridge.go), made to say who is in the way.

import { bareAddress, overlaps, parseCidr } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import { gatewayLink } from '../../features/bridge-port.ts'
import type { BridgeSpec, FormerGateway, NetworkSpec } from '../../model/attachment.ts'
import type { AddressedLink, AddressedLinks } from '../../model/observed.ts'
import type { Op } from '../../model/op.ts'
import type { PlacedPod } from './range-overlap.ts'

/** `others`: the other networks; `before`: the network as it was set up; `pods`: of all networks. */
interface AddressQuestion {
  readonly network: NetworkSpec
  readonly others: readonly NetworkSpec[]
  readonly before: NetworkSpec | undefined
  readonly pods: readonly PlacedPod[]
  readonly host: AddressedLinks
  readonly ownMac: string
}

/**
 * Operations that take addresses off the bridge which stand in the way of the wanted ones. An address goes if
 * forceAddress says so, if nothing is plugged into a bridge of our making (`ownMac`), or if it is a gateway of ours
 * that no pod has. Throws CniError 108 when the link is no bridge or an address stays in the way, naming both addresses
 * and the ports.
 */
export function agreeOnAddresses(input: AddressQuestion): readonly Op[] {
  const { bridge } = input.network
  const link = bridge && input.host.links.get(bridge.name)
  if (bridge === undefined || link === undefined) return []
  if (link.kind !== 'bridge') throw noBridge(bridge.name, link.kind)
  if (bridge.vlanFiltering && link.vlanFiltering !== true) throw noVlans(bridge.name)
  const dev = gatewayLink(bridge)
  const known = [...input.others, ...leftHere(input, dev)].flatMap((other) =>
    other.bridge !== undefined && gatewayLink(other.bridge) === dev ? other.bridge.addresses : [],
  )
  const isOwn = (address: string) => !known.includes(address) || isKeptOnce(address, bridge.addresses)
  const foreign = addressesInTheWay(input.host.links.get(dev)?.addresses ?? [], bridge.addresses).filter(isOwn)
  if (foreign.length === 0) return []
  const ports = portsOf(bridge, input.host)
  const isFree = bridge.forceAddress || (link.mac === input.ownMac && ports.length === 0)
  const over = isFree ? foreign : gatewaysOver(bridge, { ...input, networks: networksBefore(input) })
  // Of a network without pods, the next ADD looks at nothing: its gateway stays.
  const isLeaving = (address: string) => over.includes(address) && (bridge.forceAddress || !known.includes(address))
  const staying = foreign.filter((address) => !isLeaving(address))
  if (staying.length > 0) throw conflict({ bridge, foreign: staying, ports, others: input.others })
  return foreign.map((cidr) => ({
    in: 'host',
    kind: 'addr.del',
    dev,
    cidr,
    why: `take ${cidr} off ${dev}`,
  }))
}

/** Networks of others as live pods were made with them, which are elsewhere by now. */
function leftHere({ network, pods }: AddressQuestion, dev: string) {
  return pods.flatMap(({ key, gatewayLink: link, made }) =>
    made !== undefined && link === dev && key.network !== network.name ? made : [],
  )
}

type Bridge = Pick<BridgeSpec, 'name' | 'gateway'>

/** What is plugged in, but the bridge's link in a VLAN. */
function portsOf({ name, gateway }: Bridge, { links }: AddressedLinks) {
  return [...links.values()].filter((link) => link.master === name && link.name !== gateway?.peer)
}

/** The kernel keeps an IPv6 address once on a link, whatever its prefix length (net/ipv6/addrconf.c, ipv6_add_addr). */
function isKeptOnce(address: string, wanted: readonly string[]): boolean {
  return parseCidr(address)?.family === 6 && wanted.some((each) => bareAddress(each) === bareAddress(address))
}

function networksBefore({ before, others }: AddressQuestion): readonly NetworkSpec[] {
  return before === undefined ? others : [before, ...others]
}

/** `networks`: as they are set up; `ownMac`: of the bridge, if trestle made it. */
export interface GatewayFacts extends Pick<AddressQuestion, 'pods' | 'host' | 'ownMac'> {
  readonly networks: readonly NetworkSpec[]
}

/** Gateways that trestle put on its bridge for ranges without a pod there, where nothing else is plugged in. */
export function gatewaysOver(bridge: Bridge, { networks, pods, host, ownMac }: GatewayFacts): readonly string[] {
  const dev = gatewayLink(bridge)
  if (host.links.get(bridge.name)?.mac !== ownMac) return []
  const here = pods.filter((pod) => pod.gatewayLink === dev)
  const ports = portsOf(bridge, host)
  if (!ports.every(({ name }) => here.some((pod) => pod.link === name))) return []
  const needed = here.flatMap(({ ips, made }) => [
    ...ips.flatMap(({ gateway }) => gateway ?? []),
    ...(made?.bridge?.addresses ?? []).map(bareAddress),
  ])
  const put = networks.flatMap(gatewaysPut).filter((gateway) => gateway.bridge === dev)
  return (host.links.get(dev)?.addresses ?? []).filter(
    (address) => put.some((gateway) => gateway.address === address) && !needed.includes(bareAddress(address)),
  )
}

/**
 * Whether a bridge of our making that has another MAC by now is to be ours again: nothing of others is plugged in, and
 * live pods are, or it has no address of others.
 */
export function isOursStill(bridge: Bridge, { networks, pods, host, ownMac }: GatewayFacts): boolean {
  const link = host.links.get(bridge.name)
  if (link === undefined || link.mac === ownMac) return true
  const ports = portsOf(bridge, host)
  const own = pods.filter((pod) => ports.some(({ name }) => name === pod.link))
  if (own.length < ports.length) return false
  const put = networks
    .flatMap(gatewaysPut)
    .flatMap((gateway) => (gateway.bridge === bridge.name ? gateway.address : []))
  const isOfOthers = (address: string) => !address.startsWith('fe80:') && !put.includes(address)
  return own.some(({ isMade }) => isMade) || !link.addresses.some(isOfOthers)
}

/** The gateways that trestle has put on bridges for a network, by its record. */
function gatewaysPut({ bridge, formerGateways = [] }: NetworkSpec): readonly FormerGateway[] {
  const now = bridge?.addresses.map((address) => ({ bridge: gatewayLink(bridge), address })) ?? []
  return [...now, ...formerGateways]
}

/** With the gateways of earlier ranges that are left after `corrections`. `host`: absent without the bridge. */
export function withFormerGateways(
  { formerGateways: _, ...network }: NetworkSpec,
  { before, host }: { readonly before: NetworkSpec | undefined; readonly host: AddressedLinks | undefined },
  corrections: readonly Op[],
): NetworkSpec {
  const gone = corrections.flatMap((op) => (op.kind === 'addr.del' ? { bridge: op.dev, address: op.cidr } : []))
  const over = new Set([...gatewaysPut(network), ...gone].map(({ bridge, address }) => `${bridge} ${address}`))
  const former = before === undefined ? [] : gatewaysPut(before)
  const left = former.filter(({ bridge, address }) => {
    if (over.has(`${bridge} ${address}`)) return false
    over.add(`${bridge} ${address}`)
    if (host === undefined) return network.bridge === undefined || bridge !== gatewayLink(network.bridge)
    return host.links.get(bridge)?.addresses.includes(address) === true
  })
  return left.length === 0 ? network : { ...network, formerGateways: left }
}

/** Those of a bridge's addresses that keep it from having `wanted` ones. */
export function addressesInTheWay(there: readonly string[], wanted: readonly string[]): readonly string[] {
  const cidrs = wanted.flatMap((text) => parseCidr(text) ?? [])
  return there.filter((text) => {
    const address = parseCidr(text)
    if (address === undefined || wanted.includes(text)) return false
    // One IPv4 gateway a bridge, as upstream; IPv6 addresses may live side by side when they do not overlap.
    return cidrs.some((cidr) => cidr.family === address.family && (cidr.family === 4 || overlaps(cidr, address)))
  })
}

function conflict(found: {
  bridge: BridgeSpec
  foreign: readonly string[]
  ports: readonly AddressedLink[]
  others: readonly NetworkSpec[]
}): CniError {
  const { bridge, foreign, ports, others } = found
  const message =
    `"${bridge.name}" already has an IP address different from ${bridge.addresses.join(', ')}: ` +
    `${foreign.join(', ')}`
  const owner = others.find((other) => other.bridge?.addresses.some((address) => foreign.includes(address)))
  const users = owner === undefined ? usersOf(bridge.name, ports) : `it is the gateway of network ${owner.name}`
  return new CniError('bridge-foreign-address', message, { details: `${users}; ${cure(found)}` })
}

function usersOf(bridge: string, ports: readonly AddressedLink[]): string {
  if (ports.length === 0)
    return `nothing is plugged into ${bridge}, which trestle did not make: another CNI plugin may have left it`
  const names = ports.map((port) => port.alias ?? port.name)
  return (
    `plugged into ${bridge}: ` +
    `${names.slice(0, 8).join(', ')}${names.length > 8 ? `, and ${names.length - 8} more` : ''}`
  )
}

/**
 * An unused bridge goes whole: its other addresses and settings are of the same past. Where the gateway stays and its
 * prefix alone changes, nobody takes it off by hand: no pod would have it until the next ADD.
 */
function cure({
  bridge,
  foreign,
  ports,
}: {
  bridge: BridgeSpec
  foreign: readonly string[]
  ports: readonly unknown[]
}) {
  const others = 'use another "bridge"'
  if (ports.length === 0) return `${others}, set "forceAddress": true, or remove the bridge: ip link del ${bridge.name}`
  const kept = new Set(bridge.addresses.map(bareAddress))
  const replaced = foreign.filter((cidr) => !kept.has(bareAddress(cidr)))
  if (replaced.length > 0) {
    const removal = foreign.map((cidr) => `ip addr del ${cidr} dev ${bridge.name}`).join('; ')
    const note = 'with the last two, pods that are plugged in lose their gateway'
    return `${others}, set "forceAddress": true, or remove the address: ${removal}; ${note}`
  }
  const shrunk = foreign.flatMap((cidr) => bridge.addresses.filter((now) => isNarrower(now, cidr)))
  const note = shrunk.length > 0 ? `pods outside of ${shrunk.join(', ')} are cut off` : 'no pod loses anything'
  return `${others}, or set "forceAddress": true, with which ${note}`
}

/** Whether an address of a bridge is the other one with a smaller range. */
function isNarrower(now: string, former: string): boolean {
  const lengthOf = (cidr: string) => parseCidr(cidr)?.prefixLength ?? 0
  return bareAddress(now) === bareAddress(former) && lengthOf(now) > lengthOf(former)
}

function noBridge(name: string, kind: string | undefined): CniError {
  return new CniError('bridge-wrong-kind', `"${name}" already exists but is not a bridge`, {
    details: `it is ${kind === undefined ? 'a device of the machine' : `of kind ${kind}`}; choose another "bridge"`,
  })
}

/** Told before anything is made: the gateway's link would be left when its VLAN is refused. */
function noVlans(name: string): CniError {
  return new CniError('bridge-without-vlans', `"${name}" was made without VLAN filtering`, {
    details:
      `the configuration has "vlan" or "vlanTrunk"; use another "bridge", or switch it on: ip link set ${name} ` +
      'type bridge vlan_filtering 1',
  })
}
