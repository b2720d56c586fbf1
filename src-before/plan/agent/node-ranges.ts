// SPDX-License-Identifier: Apache-2.0
// Who has which range, found without comparing each with each: a cluster of 5000 nodes has 10,000 of them. Two ranges
// overlap when one is the other's beginning, so each is kept under all beginnings of a length that is asked for.

import { type Address, bitsOf, type Cidr, includes, networkOf, overlaps, parseCidr } from '../../cni/address.ts'

/** A range and the node, or the link of this node, that has it. */
export interface Claimed {
  readonly node: string
  readonly cidr: Cidr
}

/** Ranges that nodes have. `lengths`: the prefix lengths of every range that will be claimed or asked for. */
export function claimedRanges(lengths: Iterable<number>) {
  const all = [...new Set(lengths)]
  const exact = new Map<string, Claimed>()
  const inside = new Map<string, Claimed>()
  const upTo = (length: number) => all.filter((each) => each <= length)
  return {
    /** The range that overlaps this one, whichever contains the other. */
    overlapping: (cidr: Cidr): Claimed | undefined => {
      const within = inside.get(keyOf(cidr, cidr.prefixLength))
      if (within !== undefined) return within
      for (const length of upTo(cidr.prefixLength)) {
        const enclosing = exact.get(keyOf(cidr, length))
        if (enclosing !== undefined && overlaps(enclosing.cidr, cidr)) return enclosing
      }
      return undefined
    },
    claim: (claimed: Claimed): void => {
      const { cidr } = claimed
      exact.set(keyOf(cidr, cidr.prefixLength), claimed)
      for (const length of upTo(cidr.prefixLength)) inside.set(keyOf(cidr, length), claimed)
    },
    holding: (address: Address): Claimed | undefined => {
      for (const length of upTo(bitsOf(address.family))) {
        const found = exact.get(keyOf(address, length))
        if (found !== undefined) return found
      }
      return undefined
    },
  }
}

export type ClaimedRanges = ReturnType<typeof claimedRanges>

/** Keys by length: of nodes that stay as they are, the same are asked for in each view. */
const keysOf = new WeakMap<Address, Map<number, string>>()

function keyOf(address: Address, length: number): string {
  const known = keysOf.get(address)
  const key = known?.get(length)
  if (key !== undefined) return key
  const { family, value } = address
  const made = `${family}/${length} ${value >> BigInt(bitsOf(family) - length)}`
  keysOf.set(address, (known ?? new Map<number, string>()).set(length, made))
  return made
}

// What a range of a Node is by itself: whether pods can have it, and whether it is of the internet.

/**
 * What means something on one link or machine only, on many, or nothing (RFC 6890), or is IPv4 in IPv6 (RFC 4291,
 * 2.5.5.1), which tools print otherwise than we do: no pod can have it.
 */
const special = cidrs('0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 224.0.0.0/3 ::/96 fe80::/10 ff00::/8')

/**
 * Ranges that nobody else has in the internet: private (RFC 1918, RFC 4193), shared by carriers (RFC 6598), for
 * benchmarks (RFC 2544, RFC 5180) and for documentation (RFC 5737, RFC 3849, RFC 9637).
 */
const inside = cidrs(
  '10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 100.64.0.0/10 198.18.0.0/15 2001:2::/48 192.0.2.0/24 ' +
    '198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20',
)

/** The range without host bits, or in words what is wrong with it. */
export function soundRange(text: string): Cidr | string {
  const cidr = parseCidr(text)
  if (cidr === undefined) return 'is no CIDR'
  if (networkOf(cidr).value !== cidr.value) return 'has host bits'
  if (special.some((other) => overlaps(other, cidr))) return 'is no range for pods'
  return cidr
}

/** Whether other nodes can send nothing to the address. */
export function isForOneLink(address: Address): boolean {
  return special.some((range) => includes(range, address))
}

/** Whether the range is one of the internet, at least in part. */
export function isPublic(cidr: Cidr): boolean {
  return !inside.some((range) => isPartOf(cidr, range))
}

export function isPartOf(cidr: Cidr, whole: Cidr): boolean {
  return whole.prefixLength <= cidr.prefixLength && includes(whole, cidr)
}

function cidrs(texts: string): readonly Cidr[] {
  return texts.split(' ').flatMap((text) => parseCidr(text) ?? [])
}
