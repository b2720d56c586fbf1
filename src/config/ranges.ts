// SPDX-License-Identifier: Apache-2.0
// The range sets of a pool, with the checks, their order and the messages of the reference host-local plugin (range.go,
// range_set.go, config.go).

import {
  type Address,
  bitsOf,
  type Cidr,
  compareAddresses,
  firstOf,
  formatAddress,
  formatCidr,
  includes,
  lastOf,
  networkOf,
  parseAddress,
  parseCidr,
  parsePrefix,
} from '../cni/addresses.ts'
import { type CniError, configError, type KeyPath } from '../cni/errors.ts'
import type { Range } from './network-conf.ts'

/** A range as written. An empty text counts as absent, as in Go's net.IP. */
export interface RangeInput {
  readonly subnet?: string | undefined
  readonly rangeStart?: string | undefined
  readonly rangeEnd?: string | undefined
  readonly gateway?: string | undefined
}

/** A range set as written. `pathOf`: the key of the set, or of the range at `index` in it. */
export interface RangeSetInput {
  readonly ranges: readonly RangeInput[]
  readonly pathOf: (index?: number) => KeyPath
}

interface Bounds {
  readonly range: Range
  readonly start: Address
  readonly end: Address
}

/** Every two ranges are compared, and each makes an element of our rules with every other. */
const mostRanges = 64

/** The range sets, complete. Throws CniError 7. */
export function readRangeSets(inputs: readonly RangeSetInput[]): readonly (readonly Range[])[] {
  if (inputs.length === 0) {
    const hint = 'Give ipam.ranges, ipam.subnet or runtimeConfig.ipRanges (capability ipRanges), or use podcidr.'
    throw configError(['ipam'], 'no IP ranges specified', { id: 'ranges-missing', hint })
  }
  const count = inputs.reduce((sum, { ranges }) => sum + ranges.length, 0)
  if (count > mostRanges) {
    const hint = `Give at most ${mostRanges} in all sets.`
    throw configError(inputs[0]?.pathOf() ?? ['ipam'], `${count} IP ranges`, { id: 'ranges-too-many', hint })
  }
  const sets = inputs.map(readSet)
  for (const [j, set] of sets.entries()) {
    for (const [i, other] of sets.slice(0, j).entries())
      refuseOverlap(set, other, { i, j, path: inputs[j]?.pathOf() ?? [] })
  }
  return sets.map((set) => set.map(({ range }) => range))
}

function refuseOverlap(
  set: readonly Bounds[],
  other: readonly Bounds[],
  at: { i: number; j: number; path: KeyPath },
): void {
  const both = other.flatMap((a) => set.filter((b) => meets(a, b)).map((b) => `${windowOf(a)} and ${windowOf(b)}`))
  if (both.length === 0) return
  const hint = `${both.join(', ')}. One subnet may be in two sets when rangeStart and rangeEnd keep them apart.`
  throw configError(at.path, `range set ${at.i} overlaps with ${at.j}`, { id: 'ranges-overlap', hint })
}

function readSet({ ranges: inputs, pathOf }: RangeSetInput, set: number): readonly Bounds[] {
  const refused = (id: string, message: string, hint: string) =>
    configError(pathOf(), `invalid range set ${set}: ${message}`, { id, hint })
  if (inputs.length === 0)
    throw refused('range-set-empty', 'empty range set', 'Give at least one range, or leave the set out.')
  const ranges: Bounds[] = []
  for (const [index, input] of inputs.entries()) {
    const bounds = readRange(input, { path: pathOf(index), set })
    if (ranges[0] !== undefined && ranges[0].start.family !== bounds.start.family)
      throw refused('range-set-families', 'mixed address families', 'Put IPv4 and IPv6 into sets of their own.')
    const other = ranges.find((each) => meets(each, bounds))
    if (other !== undefined) {
      const message = `subnets ${windowOf(other)} and ${windowOf(bounds)} overlap`
      throw refused('ranges-overlap', message, 'Set rangeStart and rangeEnd to keep them apart.')
    }
    ranges.push(bounds)
  }
  return ranges
}

function meets(a: Bounds, b: Bounds): boolean {
  if (a.start.family !== b.start.family) return false
  return compareAddresses(a.start, b.end) <= 0 && compareAddresses(b.start, a.end) <= 0
}

function windowOf({ range }: Bounds): string {
  return `${range.rangeStart}-${range.rangeEnd}`
}

const idOfKey = {
  subnet: 'range-subnet',
  rangeStart: 'range-bound',
  rangeEnd: 'range-bound',
  gateway: 'range-gateway',
} as const

interface Place {
  readonly path: KeyPath
  readonly set: number
}

function refusedRange(place: Place, key: keyof RangeInput, message: string, hint: string): CniError {
  // `podcidr` is the subnet itself.
  const path = place.path[0] === 'podcidr' ? place.path : [...place.path, key]
  return configError(path, `invalid range set ${place.set}: ${message}`, { id: idOfKey[key], hint })
}

/** Defaults: gateway and start are the address after the network's; the end is the one before broadcast, or the last. */
function readRange(input: RangeInput, place: Place): Bounds {
  const subnet = readSubnet(input.subnet, place)
  const gateway = readAddress(input, 'gateway', place)
  const [first, last] = [firstOf(subnet), lastOf(subnet)]
  const afterFirst = { family: first.family, value: first.value + 1n }
  if (gateway !== undefined) requireUsableGateway(gateway, subnet, place)
  const givenStart = readAddress(input, 'rangeStart', place)
  const givenEnd = readAddress(input, 'rangeEnd', place)
  const start = givenStart ?? afterFirst
  const end = givenEnd ?? (subnet.family === 4 ? { family: 4, value: last.value - 1n } : last)
  const hint = `It must be from ${formatAddress(first)} to ${formatAddress(last)}, and rangeStart not after rangeEnd.`
  const isReversed = includes(subnet, end) && compareAddresses(start, end) > 0
  if (!includes(subnet, start) || (isReversed && givenStart !== undefined))
    throw refusedRange(
      place,
      'rangeStart',
      `RangeStart ${formatAddress(start)} not in network ${formatCidr(subnet)}`,
      hint,
    )
  if (!includes(subnet, end) || isReversed)
    throw refusedRange(place, 'rangeEnd', `RangeEnd ${formatAddress(end)} not in network ${formatCidr(subnet)}`, hint)
  const range: Range = {
    subnet: formatCidr(subnet),
    rangeStart: formatAddress(start),
    rangeEnd: formatAddress(end),
    gateway: formatAddress(gateway ?? afterFirst),
  }
  return { range, start, end }
}

function readSubnet(text: string | undefined, place: Place): Cidr {
  const example = 'Give the network in CIDR notation, for example "10.1.2.0/24".'
  if (text === undefined) throw refusedRange(place, 'subnet', 'IP <nil> not v4 nor v6: the subnet is missing', example)
  const subnet = parseCidr(text)
  if (subnet === undefined) throw refusedRange(place, 'subnet', `invalid CIDR address: ${text}`, example)
  const longest = bitsOf(subnet.family) - 2
  if (subnet.prefixLength > longest) {
    const hint = `The prefix length may be at most ${longest}: a gateway and one pod need a /${longest}.`
    throw refusedRange(place, 'subnet', `Network ${formatCidr(subnet)} too small to allocate from`, hint)
  }
  const network = networkOf(subnet)
  if (network.value === subnet.value) return subnet
  const meant = `For a subnet mask of length ${subnet.prefixLength} the network address is ${formatAddress(network)}`
  throw refusedRange(place, 'subnet', `Network has host bits set. ${meant}`, `Write "${formatCidr(network)}".`)
}

function readAddress(input: RangeInput, key: 'rangeStart' | 'rangeEnd' | 'gateway', place: Place): Address | undefined {
  const text = input[key]
  if (text === undefined || text === '') return undefined
  const address = parseAddress(text)
  if (address !== undefined) return address
  const hint = 'Give an address like "10.1.2.3" or "fd00::3": no prefix length, no leading zero in an IPv4 octet.'
  throw refusedRange(place, key, `invalid IP address: ${text}`, hint)
}

/** The reference accepts any gateway; one of the other family or the network's own address cannot work. */
function requireUsableGateway(gateway: Address, subnet: Cidr, place: Place): void {
  const [text, first] = [formatAddress(gateway), firstOf(subnet)]
  const hint = `The default is ${formatAddress({ ...first, value: first.value + 1n })}, the first address of the subnet.`
  if (gateway.family !== subnet.family)
    throw refusedRange(place, 'gateway', `gateway ${text} is not of the same family as ${formatCidr(subnet)}`, hint)
  const isNetwork = gateway.value === first.value
  if (subnet.family === 6 || (!isNetwork && gateway.value !== lastOf(subnet).value)) return
  const what = `${isNetwork ? 'network' : 'broadcast'} address of ${formatCidr(subnet)}`
  throw refusedRange(place, 'gateway', `gateway ${text} is the ${what}`, hint)
}

/** `ipam.exclude` as prefixes. Throws CniError 7, also for host bits: `10.1.2.3/24` may mean one address or 256. */
export function readExclude(entries: readonly string[]): readonly string[] {
  const prefixes = entries.map((text, index) => {
    const path = ['ipam', 'exclude', index]
    const cidr = parsePrefix(text)
    if (cidr === undefined)
      throw configError(path, `invalid CIDR address: ${text}`, {
        id: 'exclude-invalid',
        hint: 'Give a CIDR or an address.',
      })
    const network = formatCidr(networkOf(cidr))
    if (network === formatCidr(cidr)) return network
    const hint = `Write "${network}" for the network or "${formatAddress(cidr)}" for the address.`
    throw configError(path, `${text} has host bits set`, { id: 'exclude-invalid', hint })
  })
  return [...new Set(prefixes)]
}
