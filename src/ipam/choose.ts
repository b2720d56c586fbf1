// SPDX-License-Identifier: Apache-2.0
// Which address a pod gets: the round robin of the reference host-local plugin (allocator.go) over a pool whose gateways
// and excluded prefixes are cut out beforehand, so that none of them is walked through and a /64 costs what is taken.

import {
  type Address,
  compareAddresses,
  type Family,
  firstOf,
  formatAddress,
  lastOf,
  parseAddress,
  toCidr,
} from '../cni/addresses.ts'
import { CniError, Code } from '../cni/errors.ts'
import type { Range } from '../config/network-conf.ts'

/** An address to try, and the range that it is from. */
export interface Candidate {
  readonly address: string
  readonly range: Range
}

/** Both ends inclusive. */
interface Span {
  readonly start: bigint
  readonly end: bigint
}

interface UsableRange {
  readonly range: Range
  readonly family: Family
  readonly window: Span
  /** The window without what is given to no pod. */
  readonly spans: readonly Span[]
}

function usableRanges(set: readonly Range[], exclude: readonly string[]): readonly UsableRange[] {
  // A range may hold another one's gateway.
  const holes = [...set.map(({ gateway }) => gateway), ...exclude].map(toCidr)
  return set.map((range) => {
    const [start, end] = [toCidr(range.rangeStart), toCidr(range.rangeEnd)]
    const window = { start: start.value, end: end.value }
    let spans: readonly Span[] = [window]
    for (const hole of holes)
      if (hole.family === start.family) spans = cut(spans, { start: firstOf(hole).value, end: lastOf(hole).value })
    return { range, family: start.family, window, spans }
  })
}

function cut(spans: readonly Span[], hole: Span): readonly Span[] {
  return spans.flatMap((span) => {
    if (hole.end < span.start || hole.start > span.end) return [span]
    const before = { start: span.start, end: hole.start - 1n }
    const after = { start: hole.end + 1n, end: span.end }
    return [before, after].filter(({ start, end }) => start <= end)
  })
}

/**
 * Every usable address of the set once, from the one after `last` across the ranges around to `last` itself; without it,
 * or where it is in no range, from the first range's start.
 */
export function* candidates(
  set: readonly Range[],
  last: string | undefined,
  exclude: readonly string[],
): Generator<Candidate> {
  const from = last === undefined ? undefined : parseAddress(last)
  for (const [span, usable] of spansFrom(usableRanges(set, exclude), from)) {
    for (let value = span.start; value <= span.end; value++) {
      yield { address: formatAddress({ family: usable.family, value }), range: usable.range }
    }
  }
}

function* spansFrom(
  usable: readonly UsableRange[],
  last: Address | undefined,
): Generator<readonly [Span, UsableRange]> {
  const isIn = ({ family, window }: UsableRange) =>
    last !== undefined && family === last.family && window.start <= last.value && last.value <= window.end
  const from = usable.findIndex(isIn)
  const split = usable[from]
  if (split === undefined || last === undefined) {
    for (const one of usable) for (const span of one.spans) yield [span, one]
    return
  }
  for (const span of cut(split.spans, { start: split.window.start, end: last.value })) yield [span, split]
  for (const one of [...usable.slice(from + 1), ...usable.slice(0, from)])
    for (const span of one.spans) yield [span, one]
  for (const span of cut(split.spans, { start: last.value + 1n, end: split.window.end })) yield [span, split]
}

/** How many addresses of the set can be given to pods. */
export function capacity(set: readonly Range[], exclude: readonly string[]): bigint {
  let count = 0n
  for (const { spans } of usableRanges(set, exclude)) for (const { start, end } of spans) count += end - start + 1n
  return count
}

/** Those of `addresses` that take a place of the set: an excluded one or a gateway takes none. */
export function countedAddresses(
  set: readonly Range[],
  exclude: readonly string[],
  addresses: Iterable<string>,
): readonly string[] {
  const usable = usableRanges(set, exclude)
  return [...addresses].filter((text) => {
    const address = parseAddress(text)
    if (address === undefined) return false
    const isIn = ({ start, end }: Span) => start <= address.value && address.value <= end
    return usable.some(({ family, spans }) => family === address.family && spans.some(isIn))
  })
}

/** The range of the set that has the address, an excluded one included. */
export function rangeOf(set: readonly Range[], address: string): Range | undefined {
  const wanted = parseAddress(address)
  if (wanted === undefined) return undefined
  return set.find(
    ({ rangeStart, rangeEnd }) =>
      compareAddresses(toCidr(rangeStart), wanted) <= 0 && compareAddresses(wanted, toCidr(rangeEnd)) <= 0,
  )
}

/** `10.1.2.1-10.1.2.254,10.1.3.1-10.1.3.254` */
export function describeSet(set: readonly Range[]): string {
  return set.map(({ rangeStart, rangeEnd }) => `${rangeStart}-${rangeEnd}`).join(',')
}

/**
 * The requested address of each range set, undefined where none was asked for. `exclude` does not bind a request: it
 * keeps addresses free to be asked for. Throws CniError 102 for a gateway, an address in no set, and a second one in a
 * set.
 */
export function chooseRequested(
  sets: readonly (readonly Range[])[],
  requested: readonly string[],
): readonly (Candidate | undefined)[] {
  const left = new Set(requested)
  const chosen = sets.map((set, index) => {
    for (const address of left) {
      const range = rangeOf(set, address)
      if (range === undefined) continue
      if (sets.flat().some(({ gateway }) => gateway === address)) {
        const message = `failed to allocate for range ${index}: requested ip ${address} is subnet's gateway`
        const details = 'Ask for another address, or for none.'
        throw new CniError(Code.addressUnavailable, 'requested-gateway', message, { details })
      }
      left.delete(address)
      return { address, range }
    }
    return undefined
  })
  if (left.size === 0) return chosen
  const lines = [...left].map((address) => {
    const index = sets.findIndex((set) => rangeOf(set, address) !== undefined)
    if (index < 0) return `${address} not in range set ${sets.map(describeSet).join(' or ')}.`
    return `${address}: range set ${index} gives one address to a pod, and another of it was asked for.`
  })
  const message = `failed to allocate all requested IPs: ${[...left].join(' ')}`
  throw new CniError(Code.addressUnavailable, 'requested-outside-ranges', message, { details: lines.join('\n') })
}
