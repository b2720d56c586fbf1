// SPDX-License-Identifier: Apache-2.0
// Ranges whose gateway is on the host, beside what the host has otherwise: the bridge would take the router's address,
// and a pod the node's or another pod's. Pods of one range are in one place, a bridge or the host's routes: from
// another place nobody reaches them. A default route is no range; a single address (flannel.1, tunl0) is left out.

import {
  bareAddress,
  bitsOf,
  type Cidr,
  formatCidr,
  hostCidr,
  includes,
  networkOf,
  overlaps,
  parseAddress,
  parseCidr,
} from '../../cni/model/address.ts'
import type { PoolIpam } from '../../cni/model/net-conf.ts'
import type { AttachmentKey, BridgeSpec, NetworkSpec, PodAddress } from '../model/attachment.ts'
import { isPodLinkName, keyOfHostLink } from '../model/names.ts'
import type { AddressedLink, AddressedLinks } from '../model/observed.ts'
import { type AttachmentRecord, sameKey } from '../model/record.ts'

const linkLocals = ['169.254.0.0/16', 'fe80::/10'].flatMap(toCidr) as [Cidr, Cidr]

/** A network as far as its ranges go: where its gateways are. */
export type GatewaySide = Pick<NetworkSpec, 'name' | 'ranges'> & {
  readonly bridge?: Pick<BridgeSpec, 'name' | 'addresses' | 'gateway'>
}

/** A pod with a link on the host. `bridge`: absent: it is routed; `made`: the network as it was made with it. */
export interface PlacedPod {
  readonly key: AttachmentKey
  readonly link: string
  readonly bridge?: string
  readonly ips: readonly PodAddress[]
  readonly made?: GatewaySide
  readonly isPool: boolean
  /** Whether its ADD has ended. */
  readonly isMade: boolean
}

/** What of the host is in or around a range. `network`: the one of ours that has it; `pods`: how many are there. */
export type RangeOverlap = {
  readonly range: string
  readonly address: string
  readonly network?: string
  readonly pods?: number
} & (
  | { readonly kind: 'link'; readonly link: string }
  /** Routed pods, or a network of such. `bridge`: where the range is wanted. */
  | { readonly kind: 'routed'; readonly bridge?: string }
  /** A pod has the address of the gateway. */
  | { readonly kind: 'pod'; readonly containerId: string }
)

/**
 * What is asked about. `others`: our other networks; `pods`: of all networks; `subnets`: of the pod to be, also where
 * its gateway is not on the host.
 */
export interface RangeQuestion {
  readonly subnets?: readonly string[]
  readonly network: GatewaySide
  readonly others: readonly NetworkSpec[]
  readonly pods: readonly PlacedPod[]
}

/** The host as the kernel shows it. `known`: the network as it was set up; `ownMac`: of a bridge that trestle made. */
export interface RangeSight {
  readonly host: AddressedLinks
  readonly known: GatewaySide | undefined
  readonly ownMac: (bridge: string) => string
}

/** The pod of a record, where it has a link on the host. */
export function placedPod({ key, spec, network }: AttachmentRecord, isMade: boolean): PlacedPod | undefined {
  if (spec?.host === undefined || key.role !== 'main') return undefined
  const { host, port, ips, isPool } = spec
  return {
    key,
    link: host.name,
    ips,
    isPool,
    isMade,
    ...(port && { bridge: port.bridge }),
    ...(network && { made: network }),
  }
}

/** Whether the network of the pod is set up where the pod is: what an ADD that has not ended yet is taken to make. */
export function isSetUpThere({ key, bridge }: PlacedPod, networks: readonly NetworkSpec[]): boolean {
  return networks.some((network) => network.name === key.network && network.bridge?.name === bridge)
}

/** Gateway CIDRs of a network on the host, as text; not those that each link may have (RFC 4291 and RFC 3927, link-local). */
export function gatewaysOf({ bridge, ranges }: Pick<GatewaySide, 'bridge' | 'ranges'>): readonly string[] {
  return [...(bridge?.addresses ?? []), ...(ranges ?? [])].filter((text) => !toCidr(text).some(isOfLink))
}

/** The gateway 169.254.1.1/32 of many routed pods is none of a range; 169.254.0.0/16 as a range is. */
function isOfLink(cidr: Cidr): boolean {
  const [v4, v6] = linkLocals
  return includes(v6, cidr) || (includes(v4, cidr) && cidr.prefixLength === bitsOf(cidr.family))
}

/** The ranges of a network whose gateway is on the host, in canonical text. */
function hostRanges(network: Pick<GatewaySide, 'bridge' | 'ranges'>): readonly string[] {
  return [
    ...new Set(
      gatewaysOf(network)
        .flatMap(toCidr)
        .map((cidr) => formatCidr(networkOf(cidr))),
    ),
  ]
}

/** Whether pods of the network have a gateway on the host. */
export function hasHostGateway(network: Pick<GatewaySide, 'bridge' | 'ranges'>): boolean {
  return gatewaysOf(network).length > 0
}

/** Whether the network was set up with its gateways where they are, or has none: then nothing is looked at. */
export function wasSetUp(network: GatewaySide, known: Pick<GatewaySide, 'bridge' | 'ranges'> | undefined): boolean {
  if (!hasHostGateway(network)) return true
  const before = known?.bridge?.name === network.bridge?.name ? gatewaysOf(known ?? {}) : []
  return gatewaysOf(network).every((gateway) => before.includes(gateway))
}

/** Subnets of other interfaces that overlap the network's ranges; those of our other networks with their name. */
export function rangeOverlaps(
  { network, others, pods }: RangeQuestion,
  host: AddressedLinks,
): readonly (RangeOverlap & { readonly kind: 'link' })[] {
  const ranges = hostRanges(network)
  return foreignAddresses(network, host).flatMap(({ link, address, cidr }) => {
    if (cidr.prefixLength === bitsOf(cidr.family)) return []
    const range = ranges.find((text) => isOverlap(text, address))
    if (range === undefined) return []
    const owner = others.find(({ bridge }) => bridge?.name === link || bridge?.gateway?.name === link)
    const there = podsOn(link, pods, host)
    return [
      {
        kind: 'link',
        range,
        link,
        address,
        ...(owner && { network: owner.name }),
        ...(there > 0 && { pods: there }),
      } as const,
    ]
  })
}

/** By records, and by ports whose record was lost. */
function podsOn(bridge: string, pods: readonly PlacedPod[], host: AddressedLinks): number {
  const recorded = pods.filter((pod) => pod.bridge === bridge).map(({ link }) => link)
  const ports = [...host.links.values()].filter(({ name, master }) => master === bridge && isPodLinkName(name))
  return new Set([...recorded, ...ports.map(({ name }) => name)]).size
}

/**
 * What state alone tells of other places: bridges of other networks and of pods, routed networks and pods. `there`: the
 * links of the host. Networks in the same place may have the same range: their addresses are kept apart.
 */
function placeOverlaps(question: RangeQuestion, there: ReadonlySet<string>): readonly RangeOverlap[] {
  const { network, others, pods } = question
  const elsewhere = pods.filter(({ bridge }) => bridge !== network.bridge?.name)
  const onBridges = elsewhere.flatMap(({ key, bridge, made }) =>
    bridge === undefined ? [] : { name: key.network, bridge, gateways: gatewaysOf(made ?? {}) },
  )
  const bridges = others.flatMap(({ name, bridge }) =>
    bridge === undefined || bridge.name === network.bridge?.name || !there.has(bridge.name)
      ? []
      : { name, bridge: bridge.name, gateways: bridge.addresses },
  )
  const found = [...bridges, ...onBridges].flatMap(({ name, bridge, gateways }) =>
    gateways.flatMap((address): readonly RangeOverlap[] => {
      const range = rangeAround(network, address)
      if (range === undefined) return []
      const count = pods.filter((pod) => pod.bridge === bridge).length
      const whose = name === network.name ? {} : { network: name }
      return [{ kind: 'link', range, link: bridge, address, ...whose, ...(count > 0 && { pods: count }) }]
    }),
  )
  const told = [...eachOnce(found), ...routedOverlaps(question)]
  return [...told, ...ownElsewhere(question, told), ...takenGateways(question)]
}

/** Places where pods of the same network have the range, with or without a gateway on the host. `told`: those known. */
function ownElsewhere(
  { network, pods, subnets = [] }: RangeQuestion,
  told: readonly RangeOverlap[],
): readonly RangeOverlap[] {
  const ranges = [...hostRanges(network), ...subnets]
  const rangeOf = (address: string) => ranges.find((range) => isOverlap(range, alone(address)))
  const isTold = (bridge: string | undefined) =>
    told.some((each) => (bridge === undefined ? each.kind === 'routed' : each.kind === 'link' && each.link === bridge))
  const away = pods.filter((pod) => pod.key.network === network.name && pod.bridge !== network.bridge?.name)
  const inRange = away.filter(({ ips }) => ips.some(({ address }) => rangeOf(address) !== undefined))
  const places = [...new Set(inRange.map(({ bridge }) => bridge))].filter((bridge) => !isTold(bridge))
  return places.flatMap((bridge): readonly RangeOverlap[] => {
    const there = inRange.filter((pod) => pod.bridge === bridge)
    const address = there.flatMap(({ ips }) => ips).find((ip) => rangeOf(ip.address) !== undefined)?.address ?? ''
    const overlap = { range: rangeOf(address) ?? '', address: bareAddress(address), pods: there.length }
    if (bridge !== undefined) return [{ kind: 'link', link: bridge, ...overlap }]
    return [
      { kind: 'routed', network: network.name, ...(network.bridge && { bridge: network.bridge.name }), ...overlap },
    ]
  })
}

/** Gateways that are the address of a pod in the same place: the host would take its packets for its own. */
function takenGateways({ network, pods }: RangeQuestion): readonly RangeOverlap[] {
  const here = pods.filter(({ bridge }) => bridge === network.bridge?.name)
  return gatewaysOf(network).flatMap((gateway) => {
    const address = bareAddress(gateway)
    const holder = here.find(({ ips }) => ips.some((ip) => bareAddress(ip.address) === address))
    const range = rangeAround(network, gateway)
    if (holder === undefined || range === undefined) return []
    const { network: name, containerId } = holder.key
    return [{ kind: 'pod', range, address, network: name, containerId, pods: 1 } as const]
  })
}

function routedOverlaps({ network, others, pods }: RangeQuestion): readonly RangeOverlap[] {
  const place = network.bridge === undefined ? {} : { bridge: network.bridge.name }
  const own = gatewaysOf(network)
  const isShared = (address: string) => network.bridge === undefined && own.includes(address)
  const networks = others.flatMap(({ name, ranges = [] }) => ranges.map((address) => ({ name, address })))
  const ofNetworks = networks.flatMap(({ name, address }): readonly RangeOverlap[] => {
    const range = isShared(address) ? undefined : rangeAround(network, address)
    if (range === undefined) return []
    const count = pods.filter(({ key, bridge }) => key.network === name && bridge === undefined).length
    return [{ kind: 'routed', range, address, network: name, ...place, ...(count > 0 && { pods: count }) }]
  })
  const told = new Set(ofNetworks.map((each) => each.network))
  const routed = pods.filter(({ key, bridge }) => bridge === undefined && !told.has(key.network))
  const inRange = network.bridge === undefined ? [] : routed.filter((pod) => firstIn(network, pod) !== undefined)
  const ofPods = [...new Set(inRange.map(({ key }) => key.network))].flatMap((name): readonly RangeOverlap[] => {
    const theirs = inRange.filter(({ key }) => key.network === name)
    const address = theirs.map((pod) => firstIn(network, pod)).find((each) => each !== undefined)
    const range = address && rangeAround(network, address)
    if (range === undefined) return []
    return [
      { kind: 'routed', range, address: bareAddress(address ?? ''), network: name, ...place, pods: theirs.length },
    ]
  })
  return [...ofNetworks, ...ofPods]
}

/** The first address of a routed pod that is in a range of the network, as a prefix of full length. */
function firstIn(network: GatewaySide, { ips }: PlacedPod): string | undefined {
  return ips.map(({ address }) => alone(address)).find((address) => rangeAround(network, address) !== undefined)
}

function alone(address: string): string {
  const cidr = parseCidr(address)
  return cidr === undefined ? address : formatCidr(hostCidr(cidr))
}

function rangeAround(network: GatewaySide, address: string): string | undefined {
  return hostRanges(network).find((range) => isOverlap(range, address))
}

function eachOnce<T extends RangeOverlap>(found: readonly T[]): readonly T[] {
  const isSame = (a: RangeOverlap, b: RangeOverlap) =>
    a.kind === 'link' && b.kind === 'link' && a.link === b.link && a.range === b.range && a.address === b.address
  return found.filter((each, at) => !found.slice(0, at).some((other) => isSame(each, other)))
}

/** What ADD and STATUS make of the ranges. */
export interface RangeVerdict {
  /** Overlaps of ranges that live pods of the network have already: only told. */
  readonly tolerated: readonly RangeOverlap[]
  /** Those for which the network is not set up. */
  readonly refused: readonly [RangeOverlap, ...RangeOverlap[]] | undefined
  /** Bridges that trestle made, in the way of the ranges, with nothing plugged in: they make room. */
  readonly abandoned: readonly string[]
}

/** Judges the ranges of a network before it is set up, by the kernel and by state. `key`: the ADD's attachment. */
export function judgeRanges(asked: RangeQuestion, key: AttachmentKey, sight: RangeSight): RangeVerdict {
  const { host } = sight
  const question = { ...asked, pods: [...asked.pods, ...unrecordedPods(asked.pods, host)] }
  const around = rangeOverlaps(question, host)
  const abandoned = new Map(
    around.flatMap(({ link }) => {
      const bridge = bridgeOf(link, sight)
      return isAbandoned(bridge, question, sight) ? [[link, bridge] as const] : []
    }),
  )
  const inTheWay = around.filter(({ link }) => !abandoned.has(link))
  const found = eachOnce(
    [...inTheWay, ...placeOverlaps(question, new Set(host.links.keys()))].filter(
      (each) => each.kind !== 'link' || !abandoned.has(each.link),
    ),
  )
  return { ...withoutHad(question, key, found), abandoned: [...new Set([...abandoned].flat())] }
}

/** Pods whose record was lost, by their links: a routed pod's has the gateway's address. */
function unrecordedPods(pods: readonly PlacedPod[], { links }: AddressedLinks): readonly PlacedPod[] {
  const known = new Set(pods.map(({ link }) => link))
  return [...links.values()].flatMap(({ name, alias, master, addresses }) => {
    const key = known.has(name) ? undefined : keyOfHostLink(name, alias)
    if (key === undefined) return []
    const ips = addresses.map((address) => ({ address }))
    return [{ key, link: name, ips, isPool: true, isMade: true, ...(master && { bridge: master }) }]
  })
}

/** The same by state alone, under the machine's lock: another ADD may have been there since the look. */
export function judgePlaces(question: RangeQuestion, key: AttachmentKey | undefined, there: ReadonlySet<string>) {
  return withoutHad(question, key, placeOverlaps(question, there))
}

/** Only what is within a range that live pods of the network have in the same place is tolerated. */
function withoutHad(
  { network, pods }: RangeQuestion,
  key: AttachmentKey | undefined,
  found: readonly RangeOverlap[],
): Omit<RangeVerdict, 'abandoned'> {
  const own = pods.filter((pod) => {
    const isOther = key === undefined || !sameKey(pod.key, key)
    return pod.key.network === network.name && pod.bridge === network.bridge?.name && pod.isMade && isOther
  })
  const had = own.flatMap(({ made }) => hostRanges(made ?? {})).flatMap(toCidr)
  const isHad = ({ kind, range, address }: RangeOverlap) => {
    if (kind === 'pod') return false
    const shared = smallerOf(range, address)
    return (
      shared !== undefined && had.some((each) => each.prefixLength <= shared.prefixLength && includes(each, shared))
    )
  }
  const [first, ...more] = found.filter((each) => !isHad(each))
  return { tolerated: found.filter(isHad), refused: first === undefined ? undefined : [first, ...more] }
}

/** What two overlapping ranges have in common. An address without a prefix length is one of full length. */
function smallerOf(range: string, address: string): Cidr | undefined {
  const [one] = toCidr(range)
  const single = parseAddress(address)
  const other = single === undefined ? parseCidr(address) : hostCidr(single)
  if (one === undefined || other === undefined) return undefined
  return one.prefixLength >= other.prefixLength ? one : other
}

/** The bridge that a link is, or is the VLAN gateway of. */
function bridgeOf(link: string, { known }: RangeSight): string {
  return known?.bridge?.gateway?.name === link ? known.bridge.name : link
}

/** Whether nobody uses a bridge of our making: no network has it, no pod, and nothing is plugged in. */
export function isAbandoned(
  bridge: string,
  { others, pods }: Pick<RangeQuestion, 'others' | 'pods'>,
  { host, known, ownMac }: RangeSight,
): boolean {
  const link: AddressedLink | undefined = host.links.get(bridge)
  if (link?.kind !== 'bridge' || link.mac !== ownMac(bridge)) return false
  const peer = known?.bridge?.name === bridge ? known.bridge.gateway?.peer : undefined
  const isUsed = others.some((other) => other.bridge?.name === bridge) || pods.some((pod) => pod.bridge === bridge)
  return !isUsed && ![...host.links.values()].some(({ name, master }) => master === bridge && name !== peer)
}

/** Names of routed networks in the way of the ranges that have no pod by `pods`. */
export function emptyInTheWay({ network, others, pods }: RangeQuestion): readonly string[] {
  const found = routedOverlaps({ network, others, pods }).filter((each) => each.pods === undefined)
  return [...new Set(found.flatMap((each) => each.network ?? []))]
}

/**
 * Addresses inside the network's ranges that no pod may be given, without prefix length, sorted: the host's own,
 * gateways of live pods, and what pods have from elsewhere than a pool of ours.
 */
export function excludedAddresses(
  { network, pods }: RangeQuestion,
  host: AddressedLinks,
  gateways: readonly string[],
): readonly string[] {
  const ranges = hostRanges(network).flatMap(toCidr)
  const hosted = pods.filter(({ made }) => made === undefined || hasHostGateway(made))
  const ofPods = hosted.flatMap(({ ips, isPool }) =>
    ips.flatMap(({ address, gateway }) => [
      ...(gateway === undefined ? [] : [gateway]),
      ...(isPool ? [] : [bareAddress(address)]),
    ]),
  )
  const onBridge = host.links.get(network.bridge?.name ?? '')?.addresses ?? []
  const all = [
    ...[...foreignAddresses(network, host).map(({ address }) => address), ...onBridge].map(bareAddress),
    ...ofPods,
  ]
  const inside = all.filter((text) => {
    const address = parseAddress(text)
    return address !== undefined && !gateways.includes(text) && ranges.some((range) => includes(range, address))
  })
  return [...new Set(inside)].sort()
}

/** The pool without these addresses. */
export function withExcluded(ipam: PoolIpam, addresses: readonly string[]): PoolIpam {
  if (addresses.length === 0) return ipam
  const cidrs = addresses.flatMap((text) => parseAddress(text) ?? []).map((address) => formatCidr(hostCidr(address)))
  return { ...ipam, exclude: [...ipam.exclude, ...cidrs] }
}

/** Addresses of links that are neither the network's own nor a pod's. */
function foreignAddresses({ bridge }: GatewaySide, host: AddressedLinks) {
  const ownLinks = [bridge?.name, bridge?.gateway?.name, bridge?.gateway?.peer]
  const links = [...host.links.values()].filter(({ name }) => !ownLinks.includes(name) && !isPodLinkName(name))
  return links.flatMap(({ name, addresses }) =>
    addresses.flatMap((address) => toCidr(address).map((cidr) => ({ link: name, address, cidr }))),
  )
}

function isOverlap(a: string, b: string): boolean {
  return toCidr(a).some((one) => toCidr(b).some((other) => overlaps(one, other)))
}

function toCidr(text: string): readonly Cidr[] {
  const cidr = parseCidr(text)
  return cidr === undefined ? [] : [cidr]
}
