// SPDX-License-Identifier: Apache-2.0
// Ranges and addresses of Nodes, read and compared by ip-num. Texts are canonical (RFC 5952), as the kernel prints them.

import { IPv4, IPv4CidrRange, IPv6, IPv6CidrRange } from 'ip-num'
import { type Family, formatAddress } from '../cni/addresses.ts'

export interface NodeAddress {
  readonly family: Family
  readonly value: bigint
  readonly text: string
}

/** A prefix without host bits. Both ends inclusive. */
export interface Range {
  readonly family: Family
  readonly first: bigint
  readonly last: bigint
  readonly prefixLength: number
  readonly text: string
}

export function parseAddress(text: string): NodeAddress | undefined {
  const family = text.includes(':') ? 6 : 4
  if (!/^[\da-f:.]{2,45}$/i.test(text)) return undefined
  try {
    const value = (family === 6 ? new IPv6(text) : new IPv4(text)).getValue()
    return { family, value, text: formatAddress({ family, value }) }
  } catch {
    return undefined
  }
}

/** A prefix, its host bits left out; undefined for other text. */
function parsePrefix(text: string): (Range & { readonly hasHostBits: boolean }) | undefined {
  if (!/^[\da-f:.]{2,45}\/\d{1,3}$/i.test(text)) return undefined
  const family = text.includes(':') ? 6 : 4
  try {
    const cidr = family === 6 ? IPv6CidrRange.fromCidr(text) : IPv4CidrRange.fromCidr(text)
    const [first, last] = [cidr.getFirst().getValue(), cidr.getLast().getValue()]
    const prefixLength = Number(cidr.cidrPrefix.getValue())
    const given = parseAddress(text.slice(0, text.indexOf('/')))
    const canonical = `${formatAddress({ family, value: first })}/${prefixLength}`
    return { family, first, last, prefixLength, text: canonical, hasHostBits: given?.value !== first }
  } catch {
    return undefined
  }
}

/** The range of a subnet, of an address of full length, or of a route. */
export function rangeOf(text: string): Range | undefined {
  return parsePrefix(text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`)
}

/**
 * What means something on one link or machine only, on many, or nothing (RFC 6890), or is IPv4 in IPv6 (RFC 4291,
 * 2.5.5): no pod can have it, and no node can send to it.
 */
const special = '0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 224.0.0.0/3 ::/96 ::ffff:0:0/96 fe80::/10 ff00::/8'
  .split(' ')
  .flatMap((text) => rangeOf(text) ?? [])

/** A range that pods may have, or in words why it is none. */
export function readPodRange(text: string): Range | string {
  const range = parsePrefix(text)
  if (range === undefined) return 'is no CIDR'
  if (range.hasHostBits) return 'has host bits'
  return special.some((other) => overlaps(other, range)) ? 'is no range for pods' : range
}

/** Whether other nodes can send nothing to the address. */
export function isSpecial(address: NodeAddress): boolean {
  return special.some((range) => includes(range, address))
}

export function includes(range: Range, { family, value }: NodeAddress): boolean {
  return range.family === family && range.first <= value && value <= range.last
}

export function overlaps(a: Range, b: Range): boolean {
  return a.family === b.family && a.first <= b.last && b.first <= a.last
}

export function isWithin(range: Range, whole: Range): boolean {
  return overlaps(range, whole) && whole.prefixLength <= range.prefixLength
}

/** Ranges without an address in common, each with its node, found by halving: a large cluster has thousands. */
export class ClaimedRanges {
  readonly #sorted: { readonly 4: Claim[]; readonly 6: Claim[] } = { 4: [], 6: [] }

  /** The claim that overlaps the range. */
  overlapping(range: Range): Claim | undefined {
    const claims = this.#sorted[range.family]
    const at = indexAfter(claims, range.first)
    return [claims[at - 1], claims[at]].find((claim) => claim !== undefined && overlaps(claim.range, range))
  }

  holding({ family, value, text }: NodeAddress): Claim | undefined {
    return this.overlapping({ family, first: value, last: value, prefixLength: family === 6 ? 128 : 32, text })
  }

  /** `claim` overlaps none that is there. */
  add(claim: Claim): void {
    const claims = this.#sorted[claim.range.family]
    claims.splice(indexAfter(claims, claim.range.first), 0, claim)
  }
}

export interface Claim {
  readonly node: string
  readonly range: Range
}

/** How many claims begin at `value` or before. */
function indexAfter(claims: readonly Claim[], value: bigint): number {
  let [low, high] = [0, claims.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((claims[middle]?.range.first ?? 0n) <= value) low = middle + 1
    else high = middle
  }
  return low
}
