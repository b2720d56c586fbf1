// SPDX-License-Identifier: Apache-2.0
// The range sets of an address pool, with the messages of the upstream host-local plugin, and the
// addresses that are never chosen.

import { compare, formatAddress, formatCidr, hostCidr, networkOf, parseAddress, parseCidr } from '../cni/address.ts'
import type { CniError } from '../cni/error.ts'
import type { ErrorId } from '../cni/error-code.ts'
import { configError, type KeyPath } from '../cni/invalid-config.ts'
import type { Range } from './net-conf.ts'
import { type Bounds, type RangeInput, readRange } from './range.ts'

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

/** The pairs of a list, each once, in order. */
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
    const address = parseAddress(text)
    const cidr = address === undefined ? parseCidr(text) : hostCidr(address)
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
