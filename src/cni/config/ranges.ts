// SPDX-License-Identifier: Apache-2.0
// The range sets of an address pool, with the messages of the reference host-local plugin, and the
// addresses that are never chosen.

import { compare, formatAddress, formatCidr, hostCidr, networkOf, parseAddress, parseCidr } from '../model/address.ts'
import type { CniError } from '../model/error.ts'
import type { Range } from '../model/net-conf.ts'
import { type Bounds, type RangeInput, readRange, refuse } from './range.ts'

/** Every two ranges are compared, and each makes an element of our rules with every other. */
const MOST_RANGES = 64

/** The key path of a range set, or of a range in it: the sets come from several places of a configuration. */
export type RangePath = (set: number, range?: number) => string

function isOverlap(a: Bounds, b: Bounds): boolean {
  return a.start.family === b.start.family && compare(a.start, b.end) <= 0 && compare(b.start, a.end) <= 0
}

function windowOf(bounds: Bounds): string {
  return `${bounds.range.rangeStart}-${bounds.range.rangeEnd}`
}

/** The pairs of a list, each once, in order. */
function* pairs<T>(list: readonly T[]): Generator<readonly [T, T, number, number]> {
  for (const [i, a] of list.entries()) {
    for (const [j, b] of list.entries()) if (j > i) yield [a, b, i, j]
  }
}

function readSet(inputs: readonly RangeInput[], set: number, pathOf: RangePath): readonly Bounds[] {
  const path = pathOf(set)
  const bad = (message: string, details: string): CniError =>
    refuse(path, `invalid range set ${set}: ${message}`, details)
  if (inputs.length === 0) throw bad('empty range set', 'Give at least one range, or leave the set out.')
  const ranges: Bounds[] = []
  for (const [index, input] of inputs.entries()) {
    const bounds = readRange(input, { path: pathOf(set, index), set })
    ranges.push(bounds)
    if (bounds.start.family !== ranges[0]?.start.family) {
      throw bad('mixed address families', 'Put IPv4 and IPv6 into sets of their own.')
    }
  }
  for (const [a, b] of pairs(ranges)) {
    if (isOverlap(a, b)) {
      throw bad(`subnets ${windowOf(a)} and ${windowOf(b)} overlap`, 'Set rangeStart and rangeEnd to keep them apart.')
    }
  }
  return ranges
}

/**
 * The range sets of a pool, complete. A pod gets one address of each set. `path` is the key the sets are under, or tells each one's own key.
 * Source: host-local's range_set.go and config.go. Throws CniError invalidConfig.
 */
export function readRangeSets(
  input: readonly (readonly RangeInput[])[],
  path: string | RangePath,
): readonly (readonly Range[])[] {
  const pathOf: RangePath =
    typeof path === 'string' ? (i, j) => (j === undefined ? `${path}[${i}]` : `${path}[${i}][${j}]`) : path
  if (input.length === 0) {
    const details = 'Give ipam.ranges, ipam.subnet or runtimeConfig.ipRanges (capability ipRanges), or use podcidr.'
    throw refuse(typeof path === 'string' ? path : 'ipam', 'no IP ranges specified', details)
  }
  const count = input.reduce((sum, ranges) => sum + ranges.length, 0)
  if (count > MOST_RANGES) throw refuse(pathOf(0), `${count} IP ranges`, `Give at most ${MOST_RANGES} in all sets.`)
  const sets = input.map((ranges, index) => readSet(ranges, index, pathOf))
  for (const [a, b, i, j] of pairs(sets)) {
    const both = a.flatMap((x) => b.filter((y) => isOverlap(x, y)).map((y) => `${windowOf(x)} and ${windowOf(y)}`))
    if (both.length > 0) {
      const details = `${both.join(', ')}. One subnet may be in two sets when rangeStart and rangeEnd keep them apart.`
      throw refuse(pathOf(j), `range set ${i} overlaps with ${j}`, details)
    }
  }
  return sets.map((set) => set.map((bounds) => bounds.range))
}

/**
 * `ipam.exclude`: CIDRs or single addresses that are never chosen, as canonical CIDRs, in order and
 * without repeats. Throws CniError invalidConfig, also for host bits: `10.1.2.3/24` may mean one
 * address or 256.
 */
export function readExclude(entries: readonly string[], path: string): readonly string[] {
  const cidrs = entries.map((text, index) => {
    const address = parseAddress(text)
    const cidr = address === undefined ? parseCidr(text) : hostCidr(address)
    if (cidr === undefined) {
      throw refuse(`${path}[${index}]`, `invalid CIDR address: ${text}`, 'Give a CIDR or an address.')
    }
    const network = formatCidr(networkOf(cidr))
    if (network === formatCidr(cidr)) return network
    const details = `Write "${network}" for the network or "${formatAddress(cidr)}" for the address.`
    throw refuse(`${path}[${index}]`, `${text} has host bits set`, details)
  })
  return [...new Set(cidrs)]
}
