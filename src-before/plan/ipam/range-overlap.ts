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
  isOverlap,
  networkOf,
  parseAddress,
  parsePrefix,
} from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import type { PoolIpam } from '../../config/net-conf.ts'
import type { GatewaySide } from '../../drivers/driver.ts'
import { gatewayLink } from '../../features/bridge-port.ts'
import type { AttachmentKey, NetworkSpec, PodAddress } from '../../model/attachment.ts'
import { isPodLinkName, keyOfHostLink } from '../../model/names.ts'
import type { AddressedLink, AddressedLinks, ObservedNamespace } from '../../model/observed.ts'
import { mainTable } from '../../model/op.ts'
import { type AttachmentRecord, knownSpec, sameKey } from '../../model/record.ts'

const linkLocals = ['169.254.0.0/16', 'fe80::/10'].flatMap(toCidr) as [Cidr, Cidr]

/**
 * A pod with a link on the host. `gatewayLink`: the bridge that it is on, or the bridge's link in its VLAN; absent: it
 * is routed. `made`: the network as it was made with it.
 */
export interface PlacedPod {
  readonly key: AttachmentKey
  readonly link: string
  readonly gatewayLink?: string
  readonly ips: readonly PodAddress[]
  readonly made?: GatewaySide
  readonly isMade: boolean
}

/** What of the host is in or around a range. `network`: the one of ours that has it; `pods`: how many are there. */
type RangeOverlap = {
  readonly range: string
  readonly address: string
  readonly network?: string
  readonly pods?: number
} & (
  | { readonly kind: 'link'; readonly link: string }
  /** Routed pods, or a network of such. `bridge`: where the range is wanted. */
  | { readonly kind: 'routed'; readonly bridge?: string }
  | { readonly kind: 'pod'; readonly containerId: string }
)

/** `others`: our other networks; `pods`: of all; `subnets`: of the pod to be, also without a gateway here. */
interface RangeQuestion {
  readonly subnets?: readonly string[]
  readonly network: GatewaySide
  readonly others: readonly NetworkSpec[]
  readonly pods: readonly PlacedPod[]
}

/** `routes`: by table, those in and around the ranges and the default ones; absent where files alone are looked at. */
type HostLook = AddressedLinks & Partial<Pick<ObservedNamespace, 'routes'>>

/** The host as the kernel shows it. `known`: the network as it was set up; `ownMac`: of a bridge that trestle made. */
interface RangeSight {
  readonly host: HostLook
  readonly known: GatewaySide | undefined
  readonly ownMac: (bridge: string) => string
}

/** The pod of a record, where it has a link on the host. */
export function placedPod(record: AttachmentRecord, isMade: boolean): PlacedPod | undefined {
  const { key, network } = record
  const spec = knownSpec(record)
  if (spec?.host === undefined || key.role !== 'main') return undefined
  const { host, port, ips } = spec
  return {
    key,
    link: host.name,
    ips,
    isMade,
    ...(port && { gatewayLink: network?.bridge?.gateway?.name ?? port.bridge }),
    ...(network && { made: network }),
  }
}

/** Whether the network of the pod is set up where the pod is: what an ADD that has not ended yet is taken to make. */
export function isSetUpThere(pod: PlacedPod, networks: readonly NetworkSpec[]): boolean {
  return networks.some((network) => network.name === pod.key.network && linkOf(network) === pod.gatewayLink)
}

/** The link that has a network's gateways; undefined: its pods are routed. */
function linkOf({ bridge }: Pick<GatewaySide, 'bridge'>): string | undefined {
  return bridge && gatewayLink(bridge)
}

/** Gateway CIDRs of a network on the host, as text; not those that each link may have (RFC 4291 and RFC 3927, link-local). */
export function gatewaysOf({ bridge, ranges }: Pick<GatewaySide, 'bridge' | 'ranges'>): readonly string[] {
  return [...(bridge?.addresses ?? []), ...(ranges ?? [])].filter((text) => !toCidr(text).some(isOfLink))
}

/** The gateway 169.254.1.1/32 of many routed pods is none of a range; 169.254.0.0/16 as a range is. */
function isOfLink(cidr: Cidr): boolean {
  const [v4, v6] = linkLocals
  return includes(v6, cidr) || (includes(v4, cidr) && isFullLength(cidr))
}

export function hostRanges(network: Pick<GatewaySide, 'bridge' | 'ranges'>): readonly string[] {
  return [
    ...new Set(
      gatewaysOf(network)
        .flatMap(toCidr)
        .map((cidr) => formatCidr(networkOf(cidr))),
    ),
  ]
}

export function hasHostGateway(network: Pick<GatewaySide, 'bridge' | 'ranges'>): boolean {
  return gatewaysOf(network).length > 0
}

/**
 * Whether the network was set up with its gateways where they are, or has none: then nothing is looked at. Others may
 * have its range by now where the link with its gateways is gone. `hasLink`: whether the host has a link.
 */
export function wasSetUp(
  network: GatewaySide,
  known: Pick<GatewaySide, 'bridge' | 'ranges'> | undefined,
  hasLink: (name: string) => boolean,
): boolean {
  if (!hasHostGateway(network)) return true
  const link = linkOf(network)
  if (link !== undefined && !hasLink(link)) return false
  const before = linkOf(known ?? {}) === link ? gatewaysOf(known ?? {}) : []
  return gatewaysOf(network).every((gateway) => before.includes(gateway))
}

/** Somebody's subnet or address, and where: on a link of the host, or among routed pods. */
interface Claim {
  readonly link?: string
  readonly address: string
  readonly network?: string
}

/** Subnets of the host's other interfaces; those of our other networks with their name. */
function linkClaims({ network, others }: RangeQuestion, host: AddressedLinks): readonly Claim[] {
  return foreignAddresses(network, host).flatMap(({ link, address, cidr }) => {
    if (isFullLength(cidr)) return []
    const owner = others.find((other) => linkOf(other) === link)
    return [{ link, address, ...(owner && { network: owner.name }) }]
  })
}

/**
 * Subnets and routers that no address tells of: prefixes that a router advertises beside an address of full length
 * (DHCPv6), and the way out of a node with such an address. Those of pods and of other links of ours are told by state.
 */
function routeClaims({ network }: RangeQuestion, { links, routes }: HostLook): readonly Claim[] {
  const ownLinks = [linkOf(network), network.bridge?.gateway?.peer, 'lo']
  return (routes?.get(mainTable) ?? []).flatMap(({ dst, gw, dev, protocol = '' }): readonly Claim[] => {
    if (dev === undefined || ownLinks.includes(dev) || isPodLinkName(dev)) return []
    const isDefault = defaultDestinations.includes(dst)
    const isOnLink = gw === undefined && linkProtocols.includes(protocol)
    const address = isDefault ? gw : isOnLink ? dst : undefined
    if (address === undefined || (!isDefault && toCidr(address).some(isFullLength))) return []
    const isTold = links
      .get(dev)
      ?.addresses.some((each) => !toCidr(each).some(isFullLength) && isOverlap(each, address))
    return isTold ? [] : [{ link: dev, address }]
  })
}

/** Of default routes, as `ip` is asked for them. */
export const defaultDestinations: readonly string[] = ['0.0.0.0/0', '::/0']

/** Routes by the kernel for an address, and by a router's advertisement; others are ways, as those of a VPN. */
const linkProtocols = ['kernel', 'ra']

function isFullLength({ prefixLength, family }: Cidr): boolean {
  return prefixLength === bitsOf(family)
}

/**
 * What state tells of other places: bridges of other networks (`there`: the links of the host) and of pods, and routed
 * networks. Networks in the same place may have the same range: their addresses are kept apart.
 */
function stateClaims({ network, others, pods }: RangeQuestion, there: ReadonlySet<string>): readonly Claim[] {
  const here = linkOf(network)
  const own = gatewaysOf(network)
  return [
    ...others.flatMap((other) => {
      const link = linkOf(other)
      if (link === undefined || link === here || !there.has(link)) return []
      return (other.bridge?.addresses ?? []).map((address) => ({ link, address, network: other.name }))
    }),
    ...pods.flatMap(({ key, gatewayLink: link, made }) =>
      link === undefined || link === here
        ? []
        : gatewaysOf(made ?? {}).map((address) => ({
            link,
            address,
            ...(key.network !== network.name && { network: key.network }),
          })),
    ),
    ...others
      .flatMap(({ name, ranges = [] }) => ranges.map((address) => ({ address, network: name })))
      .filter(({ address }) => here !== undefined || !own.includes(address)),
  ]
}

/** Claims inside or around the network's ranges, each once, with the number of pods there. */
function claimed(question: RangeQuestion, claims: readonly Claim[]): readonly RangeOverlap[] {
  const { network, pods } = question
  const ranges = hostRanges(network)
  const found = claims.flatMap(({ link, address, network: name = '' }): readonly RangeOverlap[] => {
    const range = ranges.find((each) => isOverlap(each, address))
    if (range === undefined) return []
    const isThere = (pod: PlacedPod) => pod.gatewayLink === link && (link !== undefined || pod.key.network === name)
    const there = pods.filter(isThere).length
    const overlap = { range, address, ...(name !== '' && { network: name }), ...(there > 0 && { pods: there }) }
    return [link === undefined ? { ...routedBeside(network), ...overlap } : { kind: 'link', link, ...overlap }]
  })
  const isSame = (a: RangeOverlap, b: RangeOverlap) =>
    a.kind === 'link' && b.kind === 'link' && a.link === b.link && a.range === b.range && a.address === b.address
  return found.filter((each, at) => !found.slice(0, at).some((other) => isSame(each, other)))
}

function routedBeside({ bridge }: GatewaySide) {
  return { kind: 'routed', ...(bridge && { bridge: bridge.name }) } as const
}

/**
 * Pods in another place that have an address of the ranges: routed ones, and those of the same network, with or without
 * a gateway on the host. One overlap for each place that is not `told` already.
 */
function podsElsewhere({ network, pods, subnets = [] }: RangeQuestion, told: readonly RangeOverlap[]) {
  const ranges = hostRanges(network)
  const isOwn = ({ key }: PlacedPod) => key.network === network.name
  const isTold = ({ gatewayLink: link, key }: PlacedPod) =>
    told.some((each) => (each.kind === 'link' ? each.link === link : !link && each.network === key.network))
  const inRange = pods.flatMap((pod) => {
    const { gatewayLink: link } = pod
    if (link === linkOf(network) || (link !== undefined && !isOwn(pod)) || isTold(pod)) return []
    const its = isOwn(pod) ? [...ranges, ...subnets] : ranges
    const found = pod.ips.flatMap((ip) => {
      const address = bareAddress(ip.address)
      return its.filter((range) => isOverlap(range, address)).map((range) => ({ pod, range, address }))
    })
    return found.slice(0, 1)
  })
  const placeOf = ({ pod }: { pod: PlacedPod }) => pod.gatewayLink ?? `of ${pod.key.network}`
  return [...Map.groupBy(inRange, placeOf).values()].flatMap(([first, ...more]): readonly RangeOverlap[] => {
    if (first === undefined) return []
    const { pod, range, address } = first
    const overlap = { range, address, pods: more.length + 1 }
    if (pod.gatewayLink !== undefined) return [{ kind: 'link', link: pod.gatewayLink, ...overlap }]
    return [{ ...routedBeside(network), network: pod.key.network, ...overlap }]
  })
}

/** Gateways that are the address of a pod in the same place: the host would take its packets for its own. */
function takenGateways({ network, pods }: RangeQuestion): readonly RangeOverlap[] {
  const here = pods.filter((pod) => pod.gatewayLink === linkOf(network))
  const ranges = hostRanges(network)
  return gatewaysOf(network).flatMap((gateway) => {
    const address = bareAddress(gateway)
    const holder = here.find(({ ips }) => ips.some((ip) => bareAddress(ip.address) === address))
    const range = ranges.find((each) => isOverlap(each, gateway))
    if (holder === undefined || range === undefined) return []
    const { network: name, containerId } = holder.key
    return [{ kind: 'pod', range, address, network: name, containerId, pods: 1 } as const]
  })
}

/** What the ranges meet. `host`: absent where state alone is looked at. */
function overlapsOf(asked: RangeQuestion, there: ReadonlySet<string>, host?: HostLook): readonly RangeOverlap[] {
  const question = host ? { ...asked, pods: [...asked.pods, ...unrecordedPods(asked.pods, host)] } : asked
  const seen = host ? [...linkClaims(question, host), ...routeClaims(question, host)] : []
  const claims = [...seen, ...stateClaims(question, there)]
  const told = claimed(question, claims)
  // Links do not tell the addresses of pods without a record.
  return [...told, ...podsElsewhere(question, told), ...takenGateways(asked)]
}

/** Subnets of the host's interfaces that overlap the network's ranges, whatever state says. */
export function linkOverlaps(network: GatewaySide, host: AddressedLinks): readonly RangeOverlap[] {
  const question = { network, others: [], pods: unrecordedPods([], host) }
  return claimed(question, linkClaims(question, host))
}

interface RangeVerdict {
  /** Overlaps of ranges that live pods of the network have already: only told. */
  readonly tolerated: readonly RangeOverlap[]
  /** Those for which the network is not set up. */
  readonly refused: readonly [RangeOverlap, ...RangeOverlap[]] | undefined
  /** Bridges that trestle made, in the way of the ranges, with nothing plugged in: they make room. */
  readonly abandoned: readonly string[]
}

/** Judges the ranges of a network before it is set up, by the kernel and by state. `key`: the ADD's attachment. */
export function judgeRanges(question: RangeQuestion, key: AttachmentKey, sight: RangeSight): RangeVerdict {
  const { host } = sight
  const found = overlapsOf(question, new Set(host.links.keys()), host)
  const links = [...new Set(found.flatMap((each) => (each.kind === 'link' ? [each.link] : [])))]
  const abandoned = links.filter((link) => isAbandoned(bridgeOf(link, sight), question, sight))
  const inTheWay = found.filter((each) => each.kind !== 'link' || !abandoned.includes(each.link))
  const removed = new Set(abandoned.flatMap((link) => [link, bridgeOf(link, sight)]))
  return { ...withoutHad(question, key, inTheWay), abandoned: [...removed] }
}

/** Pods whose record was lost, by their links. That of a routed pod has its gateways: they stand for its addresses. */
function unrecordedPods(pods: readonly PlacedPod[], { links }: AddressedLinks): readonly PlacedPod[] {
  const known = new Set(pods.map(({ link }) => link))
  return [...links.values()].flatMap(({ name, alias, master, addresses }) => {
    const key = known.has(name) ? undefined : keyOfHostLink(name, alias)
    if (key === undefined) return []
    const ips = addresses.map((address) => ({ address }))
    return [{ key, link: name, ips, isMade: true, ...(master && { gatewayLink: master }) }]
  })
}

/** The same by state alone, under the machine's lock: another ADD may have been there since the look. */
export function judgePlaces(question: RangeQuestion, key: AttachmentKey | undefined, there: ReadonlySet<string>) {
  return withoutHad(question, key, overlapsOf(question, there))
}

/** Only what is within a range that live pods of the network have in the same place is tolerated. */
function withoutHad(
  { network, pods }: RangeQuestion,
  key: AttachmentKey | undefined,
  found: readonly RangeOverlap[],
): Omit<RangeVerdict, 'abandoned'> {
  const own = pods.filter((pod) => {
    const isOther = key === undefined || !sameKey(pod.key, key)
    return pod.key.network === network.name && pod.gatewayLink === linkOf(network) && pod.isMade && isOther
  })
  const had = own.flatMap(({ made }) => hostRanges(made ?? {})).flatMap(toCidr)
  const isHad = ({ kind, range, address }: RangeOverlap) => {
    // Of two prefixes that overlap, the longer one is all that they have in common.
    const [shared] = [range, address].flatMap(toCidr).toSorted((a, b) => b.prefixLength - a.prefixLength)
    return (
      kind !== 'pod' && had.some((each) => shared && each.prefixLength <= shared.prefixLength && includes(each, shared))
    )
  }
  const [first, ...more] = found.filter((each) => !isHad(each))
  return { tolerated: found.filter(isHad), refused: first === undefined ? undefined : [first, ...more] }
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
  const isOn = (pod: PlacedPod) => pod.gatewayLink === bridge || pod.made?.bridge?.name === bridge
  const isUsed = others.some((other) => other.bridge?.name === bridge) || pods.some(isOn)
  return !isUsed && ![...host.links.values()].some(({ name, master }) => master === bridge && name !== peer)
}

/** Names of routed networks in the way of the ranges that have no pod by `pods`. */
export function emptyInTheWay(question: RangeQuestion): readonly string[] {
  const found = claimed(question, stateClaims(question, new Set()))
  return [...new Set(found.flatMap(({ kind, network, pods }) => (kind === 'routed' && !pods && network) || []))]
}

/**
 * Addresses inside the network's ranges that no pod may be given, without prefix length, sorted: the host's own, and
 * gateways of live pods. Those of pods are reserved, whoever gave them.
 */
export function excludedAddresses(
  { network, pods }: RangeQuestion,
  host: AddressedLinks,
  gateways: readonly string[],
): readonly string[] {
  const ranges = hostRanges(network).flatMap(toCidr)
  const hosted = pods.filter(({ made }) => made === undefined || hasHostGateway(made))
  const ofPods = hosted.flatMap(({ ips }) => ips.flatMap(({ gateway }) => gateway ?? []))
  const onBridge = host.links.get(linkOf(network) ?? '')?.addresses ?? []
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

/** `ipam` without these addresses, nor the gateways of all range sets: two sets may be in one subnet. */
export function withExcluded(ipam: PoolIpam, addresses: readonly string[]): PoolIpam {
  const gateways = ipam.rangeSets.length > 1 ? ipam.rangeSets.flat().map(({ gateway }) => gateway) : []
  if (addresses.length + gateways.length === 0) return ipam
  const cidrs = [...addresses, ...gateways]
    .flatMap((text) => parseAddress(text) ?? [])
    .map((address) => formatCidr(hostCidr(address)))
  return { ...ipam, exclude: [...ipam.exclude, ...cidrs] }
}

/** Addresses of links that are neither the network's own nor a pod's. */
function foreignAddresses(network: GatewaySide, host: AddressedLinks) {
  const ownLinks = [linkOf(network), network.bridge?.gateway?.peer]
  const links = [...host.links.values()].filter(({ name }) => !ownLinks.includes(name) && !isPodLinkName(name))
  return links.flatMap(({ name, addresses }) =>
    addresses.flatMap((address) => toCidr(address).map((cidr) => ({ link: name, address, cidr }))),
  )
}

function toCidr(text: string): readonly Cidr[] {
  const cidr = parsePrefix(text)
  return cidr === undefined ? [] : [cidr]
}

// What is said of a range that overlaps what the host or another network has (range-overlap.ts), and the cure.

export function describeOverlap(overlap: RangeOverlap): string {
  return `the range ${overlap.range} overlaps ${overlap.address} of ${placeOf(overlap)}`
}

/**
 * Links that nobody removes to make room: lo and network cards, which are of no kind and which the kernel keeps, and
 * those with a default route. `routes`: the default routes of the host, and maybe others.
 */
export function linksToKeep({ links, routes }: ObservedNamespace): ReadonlySet<string> {
  const fixed = [...links.values()].filter(({ kind }) => kind === undefined).map(({ name }) => name)
  const defaults = [...routes.values()].flat().filter(({ dst }) => defaultDestinations.includes(dst))
  const uplinks = defaults.flatMap(({ dev }) => dev ?? [])
  return new Set([...fixed, ...uplinks])
}

/** Overlaps that keep a network from being set up. `kept`: links that are not to be removed. */
interface Refusal {
  readonly overlaps: readonly [RangeOverlap, ...RangeOverlap[]]
  readonly kept: ReadonlySet<string>
}

/** CniError 110 for the first of the overlaps; the others are in `details`. */
export function overlapError(name: string, { overlaps: [first, ...more], kept }: Refusal): CniError {
  const rest = more.map((each) => `${describeOverlap(each)}\n`).join('')
  return new CniError('range-in-use', `network ${name}: ${describeOverlap(first)}`, {
    details: `${rest}${harmOf(first)}: ${cureOf(first, kept)}, or set "allowOverlap": true`,
  })
}

function harmOf({ kind, pods }: RangeOverlap): string {
  return kind !== 'link' || pods !== undefined
    ? 'pods in one range and two places do not reach each other, and one address may be given to two'
    : "pods and their gateway would get addresses of that subnet, the router's or the node's own"
}

function cureOf(overlap: RangeOverlap, kept: Refusal['kept']): string {
  if (overlap.pods !== undefined) return 'use another range, or change it once those pods are gone (drain the node)'
  const removal = overlap.kind !== 'link' || kept.has(overlap.link) ? '' : `, remove ${overlap.link} if it is left over`
  return `use another range${removal}`
}

function placeOf(overlap: RangeOverlap): string {
  const { network, pods } = overlap
  const count = pods === undefined ? '' : `${pods} ${pods === 1 ? 'pod' : 'pods'}`
  const tail = pods === undefined ? '' : `, with ${count}`
  if (overlap.kind === 'link') {
    if (network !== undefined) return `network ${network} on ${overlap.link}${tail}`
    return pods === undefined ? overlap.link : `bridge ${overlap.link}${tail}`
  }
  if (overlap.kind === 'pod')
    return `container ${overlap.containerId} of network ${network}, and that would be its gateway`
  const reason = overlap.bridge === undefined ? '' : `, which pods on bridge ${overlap.bridge} would not reach`
  return `${count === '' ? '' : `${count} of `}network ${network} in mode ptp${reason}`
}
