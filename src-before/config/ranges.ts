// SPDX-License-Identifier: Apache-2.0
// The range sets of an address pool, with the messages of the upstream host-local plugin, and the
// addresses that are never chosen.

import {
  type Address,
  bitsOf,
  type Cidr,
  compare,
  firstOf,
  formatAddress,
  formatCidr,
  includes,
  lastOf,
  networkOf,
  parseAddress,
  parseCidr,
  parsePrefix,
} from '../cni/address.ts'
import { type CniError, configError, type KeyPath } from '../cni/error.ts'
import type { ErrorId } from '../cni/error-code.ts'
import type { Range } from './net-conf.ts'

/** Every two ranges are compared, and each makes an element of our rules with every other. */
const MOST_RANGES = 64

/** The key path of a range set, or of a range in it: the sets come from several places of a configuration. */
export type RangePath = (set: number, range?: number) => KeyPath

function isOverlap(a: Bounds, b: Bounds): boolean {
  return a.start.family === b.start.family && compare(a.start, b.end) <= 0 && compare(b.start, a.end) <= 0
}

function windowOf(bounds: Bounds): string {
  return `${bounds.range.rangeStart}-${bounds.range.rangeEnd}`
}

function* pairs<T>(list: readonly T[]): Generator<readonly [T, T, number, number]> {
  for (const [i, a] of list.entries()) {
    for (const [j, b] of list.entries()) if (j > i) yield [a, b, i, j]
  }
}

function readSet(inputs: readonly RangeInput[], set: number, pathOf: RangePath): readonly Bounds[] {
  const path = pathOf(set)
  const bad = (id: ErrorId, message: string, hint: string): CniError =>
    configError(path, `invalid range set ${set}: ${message}`, { id, hint })
  if (inputs.length === 0) {
    throw bad('range-set-empty', 'empty range set', 'Give at least one range, or leave the set out.')
  }
  const ranges: Bounds[] = []
  for (const [index, input] of inputs.entries()) {
    const bounds = readRange(input, { path: pathOf(set, index), set })
    ranges.push(bounds)
    if (bounds.start.family !== ranges[0]?.start.family) {
      throw bad('range-set-families', 'mixed address families', 'Put IPv4 and IPv6 into sets of their own.')
    }
  }
  for (const [a, b] of pairs(ranges)) {
    if (isOverlap(a, b)) {
      const message = `subnets ${windowOf(a)} and ${windowOf(b)} overlap`
      throw bad('ranges-overlap', message, 'Set rangeStart and rangeEnd to keep them apart.')
    }
  }
  return ranges
}

/**
 * The range sets of a pool, complete. A pod gets one address of each set. `path` is the key the sets are under, or
 * tells each one's own key. Source: host-local's range_set.go and config.go. Throws CniError invalidConfig.
 */
export function readRangeSets(
  input: readonly (readonly RangeInput[])[],
  path: KeyPath | RangePath,
): readonly (readonly Range[])[] {
  const pathOf: RangePath =
    typeof path === 'function' ? path : (i, j) => (j === undefined ? [...path, i] : [...path, i, j])
  if (input.length === 0) {
    const hint = 'Give ipam.ranges, ipam.subnet or runtimeConfig.ipRanges (capability ipRanges), or use podcidr.'
    const at = typeof path === 'function' ? ['ipam'] : path
    throw configError(at, 'no IP ranges specified', { id: 'ranges-missing', hint })
  }
  const count = input.reduce((sum, ranges) => sum + ranges.length, 0)
  if (count > MOST_RANGES) {
    const hint = `Give at most ${MOST_RANGES} in all sets.`
    throw configError(pathOf(0), `${count} IP ranges`, { id: 'ranges-too-many', hint })
  }
  const sets = input.map((ranges, index) => readSet(ranges, index, pathOf))
  for (const [a, b, i, j] of pairs(sets)) {
    const both = a.flatMap((x) => b.filter((y) => isOverlap(x, y)).map((y) => `${windowOf(x)} and ${windowOf(y)}`))
    if (both.length > 0) {
      const hint = `${both.join(', ')}. One subnet may be in two sets when rangeStart and rangeEnd keep them apart.`
      throw configError(pathOf(j), `range set ${i} overlaps with ${j}`, { id: 'ranges-overlap', hint })
    }
  }
  return sets.map((set) => set.map((bounds) => bounds.range))
}

/**
 * `ipam.exclude`: CIDRs or single addresses that are never chosen, as canonical CIDRs, in order and
 * without repeats. Throws CniError invalidConfig, also for host bits: `10.1.2.3/24` may mean one
 * address or 256.
 */
export function readExclude(entries: readonly string[], path: KeyPath): readonly string[] {
  const cidrs = entries.map((text, index) => {
    const cidr = parsePrefix(text)
    if (cidr === undefined) {
      const hint = 'Give a CIDR or an address.'
      throw configError([...path, index], `invalid CIDR address: ${text}`, { id: 'exclude-invalid', hint })
    }
    const network = formatCidr(networkOf(cidr))
    if (network === formatCidr(cidr)) return network
    const hint = `Write "${network}" for the network or "${formatAddress(cidr)}" for the address.`
    throw configError([...path, index], `${text} has host bits set`, { id: 'exclude-invalid', hint })
  })
  return [...new Set(cidrs)]
}

// One range of an address pool, checked in the order and with the messages of upstream
// host-local plugin. Every message starts with the key it is about.

/** A range as written. An empty text counts as absent, as in Go's net.IP. */
export interface RangeInput {
  readonly subnet?: string | undefined
  readonly rangeStart?: string | undefined
  readonly rangeEnd?: string | undefined
  readonly gateway?: string | undefined
}

interface Bounds {
  readonly range: Range
  readonly start: Address
  readonly end: Address
}

/** The range being read: its key path, and its set's index, which upstream's messages name. */
interface Place {
  readonly path: KeyPath
  readonly set: number
}

const idOfKey = {
  subnet: 'range-subnet',
  rangeStart: 'range-bound',
  rangeEnd: 'range-bound',
  gateway: 'range-gateway',
} as const

function refuseRange(
  place: Place,
  key: keyof RangeInput,
  reason: readonly [message: string, details: string],
): CniError {
  // podcidr is the subnet itself.
  const path = place.path[0] === 'podcidr' ? place.path : [...place.path, key]
  return configError(path, `invalid range set ${place.set}: ${reason[0]}`, { id: idOfKey[key], hint: reason[1] })
}

/** The subnet: a prefix without host bits and with room for a gateway and a pod. */
function readSubnet(text: string | undefined, place: Place): Cidr {
  const example = 'Give the network in CIDR notation, for example "10.1.2.0/24".'
  if (text === undefined) throw refuseRange(place, 'subnet', ['IP <nil> not v4 nor v6: the subnet is missing', example])
  const subnet = parseCidr(text)
  if (subnet === undefined) throw refuseRange(place, 'subnet', [`invalid CIDR address: ${text}`, example])
  const longest = bitsOf(subnet.family) - 2
  if (subnet.prefixLength > longest) {
    const details = `The prefix length may be at most ${longest}: a gateway and one pod need a /${longest}.`
    throw refuseRange(place, 'subnet', [`Network ${formatCidr(subnet)} too small to allocate from`, details])
  }
  const network = networkOf(subnet)
  if (network.value !== subnet.value) {
    const length = `For a subnet mask of length ${subnet.prefixLength} the network address is ${formatAddress(network)}`
    throw refuseRange(place, 'subnet', [`Network has host bits set. ${length}`, `Write "${formatCidr(network)}".`])
  }
  return subnet
}

function readEnd(input: RangeInput, key: 'rangeStart' | 'rangeEnd' | 'gateway', place: Place): Address | undefined {
  const text = input[key]
  if (text === undefined || text === '') return undefined
  const address = parseAddress(text)
  if (address !== undefined) return address
  const details = 'Give an address like "10.1.2.3" or "fd00::3": no prefix length, no leading zero in an IPv4 octet.'
  throw refuseRange(place, key, [`invalid IP address: ${text}`, details])
}

/**
 * The gateway. Upstream accepts any; we refuse what cannot work: the other family, and the
 * network and broadcast addresses of IPv4. (In IPv6 both are ordinary or router addresses.)
 */
function checkGateway(gateway: Address, subnet: Cidr, place: Place): void {
  const text = formatAddress(gateway)
  const details = `The default is ${formatAddress(offset(firstOf(subnet), 1n))}, the first address of the subnet.`
  if (gateway.family !== subnet.family) {
    const message = `gateway ${text} is not of the same family as ${formatCidr(subnet)}`
    throw refuseRange(place, 'gateway', [message, details])
  }
  if (subnet.family === 6) return
  const isNetwork = gateway.value === firstOf(subnet).value
  if (!isNetwork && gateway.value !== lastOf(subnet).value) return
  const message = `gateway ${text} is the ${isNetwork ? 'network' : 'broadcast'} address of ${formatCidr(subnet)}`
  throw refuseRange(place, 'gateway', [message, details])
}

function offset(address: Address, by: bigint): Address {
  return { family: address.family, value: address.value + by }
}

/**
 * One range, complete. Defaults: gateway and rangeStart the address after the network's; rangeEnd the
 * one before the broadcast address, in IPv6 the last. Source: host-local's range.go. Throws CniError
 * invalidConfig.
 */
function readRange(input: RangeInput, place: Place): Bounds {
  const subnet = readSubnet(input.subnet, place)
  const given = {
    gateway: readEnd(input, 'gateway', place),
    start: readEnd(input, 'rangeStart', place),
    end: readEnd(input, 'rangeEnd', place),
  }
  if (given.gateway !== undefined) checkGateway(given.gateway, subnet, place)
  const first = firstOf(subnet)
  const last = lastOf(subnet)
  const ends = `from ${formatAddress(first)} to ${formatAddress(last)}`
  const between = `It must be ${ends}, and rangeStart not after rangeEnd.`
  const start = given.start ?? offset(first, 1n)
  const end = given.end ?? (subnet.family === 4 ? offset(last, -1n) : last)
  const isReversed = includes(subnet, end) && compare(start, end) > 0
  if (!includes(subnet, start) || (isReversed && given.start !== undefined)) {
    const message = `RangeStart ${formatAddress(start)} not in network ${formatCidr(subnet)}`
    throw refuseRange(place, 'rangeStart', [message, between])
  }
  if (!includes(subnet, end) || isReversed) {
    const message = `RangeEnd ${formatAddress(end)} not in network ${formatCidr(subnet)}`
    throw refuseRange(place, 'rangeEnd', [message, between])
  }
  const range: Range = {
    subnet: formatCidr(subnet),
    rangeStart: formatAddress(start),
    rangeEnd: formatAddress(end),
    gateway: formatAddress(given.gateway ?? offset(first, 1n)),
  }
  return { range, start, end }
}
