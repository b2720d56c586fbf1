// SPDX-License-Identifier: Apache-2.0
// Ranges whose gateway is on the host, beside what other interfaces have: the bridge would take the router's address,
// and a pod the node's. Default routes are nobody's range; a single address (flannel.1, tunl0) is only left out.

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
import { CniError } from '../../cni/model/error.ts'
import type { PoolIpam } from '../../cni/model/net-conf.ts'
import type { AttachmentKey, BridgeSpec, NetworkSpec } from '../model/attachment.ts'
import { isPodLinkName, keyOfHostLink } from '../model/names.ts'
import type { AddressedLinks, ObservedNamespace } from '../model/observed.ts'

/** A network as far as its ranges go: where its gateways are. */
export type GatewaySide = Pick<NetworkSpec, 'name' | 'ranges'> & {
  readonly bridge?: Pick<BridgeSpec, 'name' | 'addresses' | 'gateway'>
}

/** An address of the host that is in or around a range. `network`: the one of ours that has it there. */
export interface RangeOverlap {
  readonly range: string
  readonly link: string
  readonly address: string
  readonly network?: string
}

/** The ranges of a network whose gateway is on the host, in canonical text. */
function hostRanges({ bridge, ranges }: Pick<GatewaySide, 'bridge' | 'ranges'>): readonly string[] {
  const cidrs = [...(bridge?.addresses ?? []), ...(ranges ?? [])].flatMap(toCidr)
  return [...new Set(cidrs.map((cidr) => formatCidr(networkOf(cidr))))]
}

/** What of the host is asked about. `others`: our other networks. */
export interface RangeQuestion {
  readonly network: GatewaySide
  readonly host: AddressedLinks
  readonly others: readonly NetworkSpec[]
}

/** What overlaps the network's ranges: subnets of other interfaces, those of our other networks with their name. */
export function rangeOverlaps({ network, host, others }: RangeQuestion): readonly RangeOverlap[] {
  const ranges = hostRanges(network)
  return foreignAddresses(network, host).flatMap(({ link, address, cidr }) => {
    if (cidr.prefixLength === bitsOf(cidr.family)) return []
    const range = ranges.find((text) => toCidr(text).some((each) => overlaps(each, cidr)))
    if (range === undefined) return []
    const owner = others.find(({ bridge }) => bridge?.name === link || bridge?.gateway?.name === link)
    return [{ range, link, address, ...(owner === undefined ? {} : { network: owner.name }) }]
  })
}

/** Whether the network was set up with its ranges, or has none: then nothing is looked at. */
export function wasSetUp(network: GatewaySide, known: Pick<GatewaySide, 'bridge' | 'ranges'> | undefined): boolean {
  const before = known === undefined ? [] : hostRanges(known)
  return hostRanges(network).every((range) => before.includes(range))
}

/** What ADD and STATUS make of the ranges. `refused`: the overlaps for which the network is not set up. */
export interface RangeVerdict {
  readonly found: readonly RangeOverlap[]
  readonly refused: Refusal['overlaps'] | undefined
  /** Whether the network has pods besides that of `key`: it is only warned of overlaps then. */
  readonly isLive: boolean
}

/** Judges the ranges of a network; with `allowOverlap` nothing is looked at. */
export function judgeOverlaps(
  question: RangeQuestion & { readonly key: AttachmentKey; readonly allowOverlap: boolean },
): RangeVerdict {
  const found = question.allowOverlap ? [] : rangeOverlaps(question)
  const isLive = hasOtherPods(question.key, question.host)
  const [first, ...more] = found
  return { found, isLive, refused: first === undefined || isLive ? undefined : [first, ...more] }
}

/** The same from state alone, where another network was set up a moment ago. */
export function networkOverlaps(network: GatewaySide, others: readonly NetworkSpec[]): readonly RangeOverlap[] {
  const ranges = hostRanges(network)
  return others.flatMap(({ name, bridge }) =>
    bridge === undefined || bridge.name === network.bridge?.name
      ? []
      : bridge.addresses.flatMap((address) => {
          const range = ranges.find((each) => isOverlap(each, address))
          return range === undefined ? [] : [{ range, link: bridge.name, address, network: name }]
        }),
  )
}

/** Addresses of other interfaces inside the network's ranges, without prefix length, sorted: no pod may have them. */
export function addressesInRanges({ network, host }: Pick<RangeQuestion, 'network' | 'host'>): readonly string[] {
  const ranges = hostRanges(network).flatMap(toCidr)
  const inside = foreignAddresses(network, host).filter(({ cidr }) => ranges.some((range) => includes(range, cidr)))
  return [...new Set(inside.map(({ address }) => bareAddress(address)))].sort()
}

/** The pool without these addresses. */
export function withExcluded(ipam: PoolIpam, addresses: readonly string[]): PoolIpam {
  if (addresses.length === 0) return ipam
  const cidrs = addresses.flatMap((text) => parseAddress(text) ?? []).map((address) => formatCidr(hostCidr(address)))
  return { ...ipam, exclude: [...ipam.exclude, ...cidrs] }
}

/** Whether other pods of the network than that of `key` are attached, by the links on the host. */
function hasOtherPods({ network, containerId, ifName }: AttachmentKey, host: AddressedLinks): boolean {
  const keys = [...host.links.values()].flatMap((link) => keyOfHostLink(link.name, link.alias) ?? [])
  return keys.some(
    (other) => other.network === network && (other.containerId !== containerId || other.ifName !== ifName),
  )
}

/** What is said of an overlap. */
export function describeOverlap(overlap: RangeOverlap): string {
  return `the range ${overlap.range} overlaps ${overlap.address} of ${placeOf(overlap)}`
}

/**
 * Links that nobody removes to make room: lo and network cards, which are of no kind and which the kernel keeps, and
 * those with a default route. `routes`: the default routes of the host.
 */
export function linksToKeep({ links, routes }: ObservedNamespace): ReadonlySet<string> {
  const fixed = [...links.values()].filter(({ kind }) => kind === undefined).map(({ name }) => name)
  const uplinks = [...routes.values()].flat().flatMap(({ dev }) => dev ?? [])
  return new Set([...fixed, ...uplinks])
}

/** Overlaps that keep a network from being set up. `kept`: links that are not to be removed. */
export interface Refusal {
  readonly overlaps: readonly [RangeOverlap, ...RangeOverlap[]]
  readonly kept: ReadonlySet<string>
}

/** CniError 110 for the first of the overlaps; the others are in `details`. */
export function overlapError(name: string, { overlaps: [first, ...more], kept }: Refusal): CniError {
  const { range, address, link } = first
  const message = `network ${name}: the range ${range} overlaps ${address} of ${placeOf(first)}`
  const rest = more.map((each) => `${describeOverlap(each)}\n`).join('')
  const removal = kept.has(link) ? '' : ` remove ${link} if it is left over,`
  return new CniError('range-in-use', message, {
    details:
      `${rest}pods and their gateway would get addresses of that subnet, the router's or the node's own: use ` +
      `another range,${removal} or set "allowOverlap": true`,
  })
}

function placeOf({ link, network }: RangeOverlap): string {
  return network === undefined ? link : `network ${network} on ${link}`
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
