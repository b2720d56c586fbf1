// SPDX-License-Identifier: Apache-2.0
// Who has which range, found without comparing each with each: a cluster of 5000 nodes has 10,000 of them. Two ranges
// overlap when one is the other's beginning, so each is kept under all beginnings of a length that is asked for.

import { type Address, bitsOf, type Cidr, overlaps } from '../../cni/model/address.ts'

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
    /** The range that the address is in. */
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
