// SPDX-License-Identifier: Apache-2.0
// Which address a pod gets: the round robin of the upstream host-local plugin over a pool whose
// gateways and excluded prefixes are cut out beforehand, so that none of them is walked through.

import {
  type Address,
  compare,
  type Family,
  firstOf,
  formatAddress,
  lastOf,
  parseAddress,
  parseCidr,
} from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import type { Range, StaticIpam } from '../../config/net-conf.ts'
import type { Lease } from '../../model/attachment.ts'

/** An address to try, in canonical text, and the range it is from. */
export interface Candidate {
  readonly address: string
  readonly range: Range
}

interface Span {
  readonly start: bigint
  readonly end: bigint
}

interface Usable {
  readonly range: Range
  readonly family: Family
  readonly window: Span
  readonly spans: readonly Span[]
}

function addressOf(text: string): Address {
  const address = parseAddress(text)
  if (address === undefined) throw new TypeError(`not an address: ${text}`)
  return address
}

function cut(spans: readonly Span[], hole: Span): readonly Span[] {
  return spans.flatMap((span) => {
    if (hole.end < span.start || hole.start > span.end) return [span]
    const before = { start: span.start, end: hole.start - 1n }
    const after = { start: hole.end + 1n, end: span.end }
    return [before, after].filter(({ start, end }) => start <= end)
  })
}

/** The gateways of all ranges of the set (a range may hold another one's) and the excluded prefixes. */
function holesOf(set: readonly Range[], exclude: readonly string[]): readonly (Span & { readonly family: Family })[] {
  const gateways = set.map((range) => addressOf(range.gateway))
  const points = gateways.map(({ family, value }) => ({ family, start: value, end: value }))
  const prefixes = exclude.flatMap((text) => {
    const cidr = parseCidr(text)
    if (cidr === undefined) throw new TypeError(`not a CIDR: ${text}`)
    return { family: cidr.family, start: firstOf(cidr).value, end: lastOf(cidr).value }
  })
  return [...points, ...prefixes]
}

function usableOf(set: readonly Range[], exclude: readonly string[]): readonly Usable[] {
  const holes = holesOf(set, exclude)
  return set.map((range) => {
    const start = addressOf(range.rangeStart)
    const window = { start: start.value, end: addressOf(range.rangeEnd).value }
    const ours = holes.filter(({ family }) => family === start.family)
    const spans = ours.reduce<readonly Span[]>(cut, [window])
    return { range, family: start.family, window, spans }
  })
}

/**
 * The addresses of a span, lazily. Those that share all but their last group (16 bits; 8 in IPv4)
 * share their text up to it, unless the group is zero: IPv6 may then shorten it.
 */
function* candidatesIn(span: Span, { family, range }: Usable): Generator<Candidate> {
  const blockSize = family === 4 ? 256n : 65536n
  const radix = family === 4 ? 10 : 16
  for (let value = span.start; value <= span.end; ) {
    const block = value - (value % blockSize)
    const blockEnd = block + blockSize - 1n
    const last = Number((span.end < blockEnd ? span.end : blockEnd) - block)
    const prefix = formatAddress({ family, value: block + 1n }).slice(0, -1)
    for (let group = Number(value - block); group <= last; group++) {
      const address = group === 0 ? formatAddress({ family, value: block }) : prefix + group.toString(radix)
      yield { address, range }
    }
    value = blockEnd + 1n
  }
}

/** The spans in trying order: after `last`, the ranges that follow, around to `last` itself. */
function* spansFrom(usable: readonly Usable[], last: Address | undefined): Generator<readonly [Span, Usable]> {
  const isIn = (one: Usable, { family, value }: Address) =>
    one.family === family && one.window.start <= value && value <= one.window.end
  const from = last === undefined ? -1 : usable.findIndex((one) => isIn(one, last))
  const split = usable[from]
  if (split === undefined || last === undefined) {
    for (const one of usable) for (const span of one.spans) yield [span, one]
    return
  }
  for (const span of cut(split.spans, { start: split.window.start, end: last.value })) yield [span, split]
  for (const one of [...usable.slice(from + 1), ...usable.slice(0, from)]) {
    for (const span of one.spans) yield [span, one]
  }
  for (const span of cut(split.spans, { start: last.value + 1n, end: split.window.end })) yield [span, split]
}

/**
 * Every usable address of a range set once, in the order to try them: from the one after `last` (the
 * address given out last; one that is in no range counts as none), across the ranges, around to
 * `last` itself. Without `last` from the first range's start. Gateways and the CIDRs in `exclude`
 * are left out. Lazy: an IPv6 /64 costs what is taken from it. Source: host-local's allocator.go.
 */
export function* candidates(
  set: readonly Range[],
  last: string | undefined,
  exclude: readonly string[],
): Generator<Candidate> {
  const from = last === undefined ? undefined : parseAddress(last)
  for (const [span, usable] of spansFrom(usableOf(set, exclude), from)) yield* candidatesIn(span, usable)
}

/** What `firstFree` looks at. `taken` holds canonical addresses. */
interface PoolSnapshot {
  readonly last?: string | undefined
  readonly exclude: readonly string[]
  readonly taken: { has(address: string): boolean }
}

export function firstFree(set: readonly Range[], { last, exclude, taken }: PoolSnapshot): Candidate | undefined {
  for (const candidate of candidates(set, last, exclude)) {
    if (!taken.has(candidate.address)) return candidate
  }
  return undefined
}

/** How many addresses of the set can be given out: gateways and excluded ones do not count. */
export function capacity(set: readonly Range[], exclude: readonly string[]): bigint {
  return usableOf(set, exclude)
    .flatMap((one) => one.spans)
    .reduce((sum, span) => sum + span.end - span.start + 1n, 0n)
}

/** Those of `addresses` that count for `capacity`: an excluded one, or a gateway, takes nobody's place. */
export function countedOf(
  set: readonly Range[],
  exclude: readonly string[],
  addresses: Iterable<string>,
): readonly string[] {
  const usable = usableOf(set, exclude)
  return [...addresses].filter((text) => {
    const address = parseAddress(text)
    if (address === undefined) return false
    const { family, value } = address
    return usable.some(
      (one) => one.family === family && one.spans.some(({ start, end }) => start <= value && value <= end),
    )
  })
}

export function rangeOf(set: readonly Range[], address: string): Range | undefined {
  const wanted = parseAddress(address)
  if (wanted === undefined) return undefined
  return set.find((range) => {
    const start = addressOf(range.rangeStart)
    return compare(start, wanted) <= 0 && compare(wanted, addressOf(range.rangeEnd)) <= 0
  })
}

/** The ends of the set's ranges, as upstream writes them: `10.1.2.1-10.1.2.254,10.1.3.1-10.1.3.254`. */
export function describeSet(set: readonly Range[]): string {
  return set.map((range) => `${range.rangeStart}-${range.rangeEnd}`).join(',')
}

// Addresses asked for by name, and what to say when an address cannot be had. Wording: upstream
// host-local plugin's.

/** A range set by its place in the configuration, which the messages name. */
interface NumberedSet {
  readonly index: number
  readonly ranges: readonly Range[]
}

function readRequested(text: string): string {
  const slash = text.indexOf('/')
  const address = parseAddress(slash < 0 ? text : text.slice(0, slash))
  if (address !== undefined) return formatAddress(address)
  throw new CniError('requested-address-invalid', `requested address: invalid IP address ${text}`, {
    details: 'CNI_ARGS IP, args.cni.ips and runtimeConfig.ips take addresses; a prefix length is ignored.',
  })
}

function refuseGateway(set: NumberedSet, address: string): CniError {
  const message = `failed to allocate for range ${set.index}: requested ip ${address} is subnet's gateway`
  return new CniError('requested-gateway', message, { details: 'Ask for another address, or for none.' })
}

function refuseLeft(left: readonly string[], sets: readonly (readonly Range[])[]): CniError {
  const details = left.map((address) => {
    const index = sets.findIndex((set) => rangeOf(set, address) !== undefined)
    if (index < 0) return `${address} not in range set ${sets.map(describeSet).join(' or ')}.`
    return `${address}: range set ${index} gives one address to a pod, and another of it was asked for.`
  })
  const message = `failed to allocate all requested IPs: ${left.join(' ')}`
  return new CniError('requested-outside-ranges', message, { details: details.join('\n') })
}

/**
 * The requested address of each range set, undefined where none was asked for. A set takes the first
 * that is in its ranges; the same address twice counts once; a `/prefix` is ignored. `exclude` does
 * not bind a request: it keeps addresses free to be asked for. Throws CniError addressUnavailable for
 * a gateway, an address in no set and a second one in a set, invalidConfig for text that is no
 * address. Source: host-local's main.go and allocator.go.
 */
export function chooseRequested(
  sets: readonly (readonly Range[])[],
  requested: readonly string[],
): readonly (Candidate | undefined)[] {
  const left = new Set(requested.map(readRequested))
  const chosen = sets.map((ranges, index) => {
    for (const address of left) {
      const range = rangeOf(ranges, address)
      if (range === undefined) continue
      if (sets.flat().some(({ gateway }) => gateway === address)) throw refuseGateway({ index, ranges }, address)
      left.delete(address)
      return { address, range }
    }
    return undefined
  })
  if (left.size > 0) throw refuseLeft([...left], sets)
  return chosen
}

/** The error for a requested address that another attachment holds; `holder` says which. */
export function requestTaken(set: NumberedSet, address: string, holder?: string): CniError {
  const what = `requested IP address ${address} is not available in range set ${describeSet(set.ranges)}`
  const details = holder === undefined ? 'its file in the state directory says who has it.' : `It is held by ${holder}.`
  return new CniError('requested-taken', `failed to allocate for range ${set.index}: ${what}`, { details })
}

/** The error for an address of the configuration or of another plugin that `holder` has. */
export function addressTaken(address: string, holder: string): CniError {
  return new CniError('requested-taken', `IP address ${address} is not available`, {
    details: `It is held by ${holder}. Use another address, or set "allowOverlap": true.`,
  })
}

/**
 * How full a set is. `directory`: of the network's reservations; `used`: its usable addresses that are given out;
 * `cooling`: for how many seconds more each of those in their cooldown is; `theirs`: how many host-local reserved, and
 * where.
 */
export interface PoolUse {
  readonly directory: string
  readonly used: number
  readonly cooling: readonly number[]
  readonly exclude: readonly string[]
  readonly theirs: { readonly count: number; readonly directory: string }
}

export function exhausted(set: NumberedSet, use: PoolUse): CniError {
  const total = capacity(set.ranges, use.exclude)
  const what = `no IP addresses available in range set: ${describeSet(set.ranges)}`
  const message = `failed to allocate for range ${set.index}: ${what} (${use.used} of ${total} used)`
  return new CniError('pool-exhausted', message, {
    details:
      `${use.directory} says who has each address; \`trestle gc\` frees those of pods that are gone. ` +
      describeCooling(use.cooling) +
      fromBefore(use.theirs) +
      'If all are in use, the network needs a larger subnet or another range in this set.',
  })
}

/** Nobody has them, and they are free by themselves. */
export function describeCooling(left: readonly number[]): string {
  if (left.length === 0) return ''
  return `${left.length} cool down (ipam.cooldown), the first for ${Math.ceil(Math.min(...left))} s more. `
}

/** Nobody but its DEL, a restart or adopt ends a reservation of the upstream plugin. */
function fromBefore({ count, directory }: PoolUse['theirs']): string {
  if (count === 0) return ''
  return (
    `${count} were reserved by host-local, in ${directory}; \`trestle adopt --apply\` ` +
    `frees those of pods that are gone. `
  )
}

// The addresses of ipam.type `static`: what the configuration says.

/**
 * The lease of a static configuration: its addresses in order, each with its own gateway if it has
 * one. The edge has already put together addresses from the configuration, CNI_ARGS and
 * runtimeConfig, and given each CNI_ARGS GATEWAY to the addresses whose subnet holds it.
 */
export function staticLease(conf: StaticIpam): Lease {
  const ips = conf.addresses.map(({ address, gateway }) => (gateway === undefined ? { address } : { address, gateway }))
  const lease = { ips, routes: conf.routes }
  return conf.dns === undefined ? lease : { ...lease, dns: conf.dns }
}
