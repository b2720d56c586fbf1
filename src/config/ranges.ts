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

/** A range as written, and its key. An empty text counts as absent, as in Go's net.IP. */
export interface RangeInput {
  readonly path: KeyPath
  readonly subnet?: string | undefined
  readonly rangeStart?: string | undefined
  readonly rangeEnd?: string | undefined
  readonly gateway?: string | undefined
}

/** A range set as written, and its key. */
export interface RangeSetInput {
  readonly path: KeyPath
  readonly ranges: readonly RangeInput[]
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
  const count = inputs.flatMap(({ ranges }) => ranges).length
  if (count > mostRanges) {
    const hint = `Give at most ${mostRanges} in all sets.`
    throw configError(inputs[0]?.path ?? ['ipam'], `${count} IP ranges`, { id: 'ranges-too-many', hint })
  }
  const sets: (readonly Bounds[])[] = []
  for (const [index, { path, ranges }] of inputs.entries()) {
    const set = readSet(ranges, path, index)
    const other = sets.findIndex((each) => each.some((a) => set.some((b) => meets(a, b))))
    if (other >= 0) {
      const hint = 'One subnet may be in two sets when rangeStart and rangeEnd keep them apart.'
      throw configError(path, `range set ${other} overlaps with ${index}`, { id: 'ranges-overlap', hint })
    }
    sets.push(set)
  }
  return sets.map((set) => set.map(({ range }) => range))
}

function readSet(inputs: readonly RangeInput[], path: KeyPath, set: number): readonly Bounds[] {
  const refused = (id: string, message: string, hint: string) =>
    configError(path, `invalid range set ${set}: ${message}`, { id, hint })
  if (inputs.length === 0)
    throw refused('range-set-empty', 'empty range set', 'Give at least one range, or leave the set out.')
  const ranges: Bounds[] = []
  for (const input of inputs) {
    const bounds = readRange(input, set)
    if (ranges[0] !== undefined && ranges[0].start.family !== bounds.start.family)
      throw refused('range-set-families', 'mixed address families', 'Put IPv4 and IPv6 into sets of their own.')
    const other = ranges.find((each) => meets(each, bounds))
    if (other !== undefined) {
      const [a, b] = [other, bounds].map(({ range }) => `${range.rangeStart}-${range.rangeEnd}`)
      throw refused('ranges-overlap', `subnets ${a} and ${b} overlap`, 'Set rangeStart and rangeEnd apart.')
    }
    ranges.push(bounds)
  }
  return ranges
}

function meets(a: Bounds, b: Bounds): boolean {
  if (a.start.family !== b.start.family) return false
  return compareAddresses(a.start, b.end) <= 0 && compareAddresses(b.start, a.end) <= 0
}

type Complaint = (key: 'subnet' | 'rangeStart' | 'rangeEnd' | 'gateway', message: string, hint: string) => CniError

/** Defaults: gateway and start are the address after the network's; the end is the one before broadcast, or the last. */
function readRange(input: RangeInput, set: number): Bounds {
  const ids = { subnet: 'range-subnet', rangeStart: 'range-bound', rangeEnd: 'range-bound', gateway: 'range-gateway' }
  const refused: Complaint = (key, message, hint) => {
    // `podcidr` is the subnet itself.
    const path = input.path[0] === 'podcidr' ? input.path : [...input.path, key]
    return configError(path, `invalid range set ${set}: ${message}`, { id: ids[key], hint })
  }
  const read = (key: 'rangeStart' | 'rangeEnd' | 'gateway') => {
    const text = input[key]
    const address = parseAddress(text ?? '')
    if (address !== undefined || !text) return address
    throw refused(key, `invalid IP address: ${text}`, 'Give an address like "10.1.2.3" or "fd00::3".')
  }
  const subnet = readSubnet(input.subnet, refused)
  const [network, first, last] = [formatCidr(subnet), firstOf(subnet), lastOf(subnet)]
  const afterFirst = { family: first.family, value: first.value + 1n }
  const gateway = read('gateway') ?? afterFirst
  requireUsableGateway(gateway, subnet, refused)
  const givenStart = read('rangeStart')
  const start = givenStart ?? afterFirst
  const end = read('rangeEnd') ?? (subnet.family === 4 ? { family: 4, value: last.value - 1n } : last)
  const hint = `It must be from ${formatAddress(first)} to ${formatAddress(last)}, and rangeStart not after rangeEnd.`
  const isReversed = includes(subnet, end) && compareAddresses(start, end) > 0
  if (!includes(subnet, start) || (isReversed && givenStart !== undefined))
    throw refused('rangeStart', `RangeStart ${formatAddress(start)} not in network ${network}`, hint)
  if (!includes(subnet, end) || isReversed)
    throw refused('rangeEnd', `RangeEnd ${formatAddress(end)} not in network ${network}`, hint)
  const [rangeStart, rangeEnd] = [formatAddress(start), formatAddress(end)]
  return { range: { subnet: network, rangeStart, rangeEnd, gateway: formatAddress(gateway) }, start, end }
}

function readSubnet(text: string | undefined, refused: Complaint): Cidr {
  const example = 'Give the network in CIDR notation, for example "10.1.2.0/24".'
  if (text === undefined) throw refused('subnet', 'IP <nil> not v4 nor v6: the subnet is missing', example)
  const subnet = parseCidr(text)
  if (subnet === undefined) throw refused('subnet', `invalid CIDR address: ${text}`, example)
  const longest = bitsOf(subnet.family) - 2
  if (subnet.prefixLength > longest) {
    const hint = `The prefix length may be at most ${longest}: a gateway and one pod need a /${longest}.`
    throw refused('subnet', `Network ${formatCidr(subnet)} too small to allocate from`, hint)
  }
  const network = networkOf(subnet)
  if (network.value === subnet.value) return subnet
  const meant = `For a subnet mask of length ${subnet.prefixLength} the network address is ${formatAddress(network)}`
  throw refused('subnet', `Network has host bits set. ${meant}`, `Write "${formatCidr(network)}".`)
}

/** The reference accepts any gateway; one of the other family or the network's own address cannot work. */
function requireUsableGateway(gateway: Address, subnet: Cidr, refused: Complaint): void {
  const [text, network] = [formatAddress(gateway), formatCidr(subnet)]
  const hint = 'The default is the first address of the subnet.'
  if (gateway.family !== subnet.family)
    throw refused('gateway', `gateway ${text} is not of the same family as ${network}`, hint)
  if (subnet.family === 6) return
  if (gateway.value === subnet.value)
    throw refused('gateway', `gateway ${text} is the network address of ${network}`, hint)
  if (gateway.value === lastOf(subnet).value)
    throw refused('gateway', `gateway ${text} is the broadcast address of ${network}`, hint)
}

/** `ipam.exclude` as prefixes. Throws CniError 7, also for host bits: `10.1.2.3/24` may mean one address or 256. */
export function readExclude(entries: readonly string[]): readonly string[] {
  const prefixes = entries.map((text, index) => {
    const path = ['ipam', 'exclude', index]
    const id = 'exclude-invalid'
    const cidr = parsePrefix(text)
    if (cidr === undefined)
      throw configError(path, `invalid CIDR address: ${text}`, { id, hint: 'Give a CIDR or an address.' })
    const network = formatCidr(networkOf(cidr))
    if (network === formatCidr(cidr)) return network
    const hint = `Write "${network}" for the network or "${formatAddress(cidr)}" for the address.`
    throw configError(path, `${text} has host bits set`, { id, hint })
  })
  return [...new Set(prefixes)]
}
