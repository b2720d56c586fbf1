// SPDX-License-Identifier: Apache-2.0
// Subnets that two networks of one node both have.

import { IPv4CidrRange, IPv6CidrRange } from 'ip-num'
import { isObject } from '../../../cni/json/json-object.ts'
import { familyOf, formatCidr, networkOf, parseCidr } from '../../../cni/model/address.ts'
import type { PluginEntry } from './list.ts'

/** The subnets of the pools of a plugin, whoever allocates from them, in canonical text. */
export function subnetsOf({ conf }: PluginEntry): readonly string[] {
  const ipam = isObject(conf['ipam']) ? conf['ipam'] : {}
  const sets: unknown[] = Array.isArray(ipam['ranges']) ? ipam['ranges'].flat() : []
  const ranges = [ipam, ...sets].flatMap((range) => (isObject(range) ? [range['subnet']] : []))
  const short = Array.isArray(conf['podcidr']) ? conf['podcidr'] : [conf['podcidr']]
  return [...short, ...ranges].flatMap((text: unknown) => {
    const cidr = typeof text === 'string' ? parseCidr(text) : undefined
    return cidr === undefined ? [] : [formatCidr(networkOf(cidr))]
  })
}

/** The first subnet of each list that overlaps with one of the other. */
export function overlapOf(ours: readonly string[], theirs: readonly string[]): readonly [string, string] | undefined {
  for (const a of ours) {
    const b = theirs.find((other) => isOverlap(a, other))
    if (b !== undefined) return [a, b]
  }
  return undefined
}

/** Of two prefixes that share an address one contains the other. */
function isOverlap(a: string, b: string): boolean {
  if (familyOf(a) !== familyOf(b)) return false
  if (familyOf(a) === 6) {
    const [one, other] = [IPv6CidrRange.fromCidr(a), IPv6CidrRange.fromCidr(b)]
    return one.contains(other) || other.contains(one)
  }
  const [one, other] = [IPv4CidrRange.fromCidr(a), IPv4CidrRange.fromCidr(b)]
  return one.contains(other) || other.contains(one)
}
