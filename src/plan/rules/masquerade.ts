// SPDX-License-Identifier: Apache-2.0
// The set elements that say which sources are masqueraded and which destinations are not. The
// kernel's interval sets refuse overlaps, and networks may overlap (one subnet inside another's):
// overlaps are taken apart here, so that equal networks always give equal elements.

import {
  bitsOf,
  type Cidr,
  formatAddress,
  formatCidr,
  includes,
  overlaps,
  parseCidr,
  subtract,
} from '../../cni/model/address.ts'
import type { NetworkSpec } from '../model/attachment.ts'
import type { Element } from '../model/elements.ts'
import type { Op } from '../model/op.ts'

interface Pair {
  readonly source: Cidr
  readonly destination: Cidr
}

/** Every masquerade element of these networks together. */
export function masqueradeElements(networks: readonly NetworkSpec[]): readonly Element[] {
  const rules = networks.flatMap((network) => (network.masquerade ? [network.masquerade] : []))
  const kept = rules.map(({ subnets, keep }) => ({ first: subnets, second: keep }))
  const same = networks.map(({ hairpin = [] }) => ({ first: hairpin, second: hairpin }))
  return [
    ...subnetElements(
      'masq',
      rules.flatMap(({ subnets }) => subnets),
    ),
    ...pairElements('keep', kept),
    ...pairElements('hairpin', same),
  ]
}

/** Operations that add the elements. */
export function masqueradeOps(elements: readonly Element[]): readonly Op[] {
  return elements.map(({ set, element }) => ({
    in: 'host',
    kind: 'nft.add',
    set,
    element,
    why: `${reasons[set.slice(0, -1)]} ${element}`,
  }))
}

const reasons: Readonly<Record<string, string>> = {
  masq: 'masquerade pods of',
  keep: "keep the pod's address on",
  hairpin: 'masquerade what is translated on',
}

/** The elements of two sets (both families) that hold subnets: what is inside of another is left out. */
export function subnetElements(name: 'masq' | 'acceptnet', subnets: readonly string[]): readonly Element[] {
  const apart = outermost(subnets.flatMap(toCidr))
  return apart.map((cidr) => ({ set: `${name}${cidr.family}` as const, element: elementOf(cidr) }))
}

/** The elements of two sets that hold pairs: each of `first` with each of `second`, overlaps taken apart. */
export function pairElements(
  name: 'keep' | 'hairpin' | 'acceptnew',
  lists: readonly { readonly first: readonly string[]; readonly second: readonly string[] }[],
): readonly Element[] {
  return apart(lists.flatMap(({ first, second }) => pairsOf(first, second))).map((pair) => pairElement(name, pair))
}

function pairElement(name: 'keep' | 'hairpin' | 'acceptnew', { source, destination }: Pair): Element {
  return { set: `${name}${source.family}`, element: `${elementOf(source)} . ${elementOf(destination)}` }
}

/** As nft lists it, to compare with that: a prefix of one address is the address. */
function elementOf(cidr: Cidr): string {
  return cidr.prefixLength === bitsOf(cidr.family) ? formatAddress(cidr) : formatCidr(cidr)
}

function pairsOf(subnets: readonly string[], keep: readonly string[]): readonly Pair[] {
  return subnets
    .flatMap(toCidr)
    .flatMap((source) =>
      keep
        .flatMap(toCidr)
        .flatMap((destination) => (source.family === destination.family ? [{ source, destination }] : [])),
    )
}

/** CIDRs either contain one another or are apart: dropping the contained ones leaves no overlap. */
function outermost(cidrs: readonly Cidr[]): readonly Cidr[] {
  const sorted = [...cidrs].sort((a, b) => a.prefixLength - b.prefixLength)
  const kept: Cidr[] = []
  for (const cidr of sorted) if (!kept.some((other) => contains(other, cidr))) kept.push(cidr)
  return kept
}

/** Pairs as disjoint rectangles: what an earlier pair covers is cut out of the later one's destination. */
function apart(pairs: readonly Pair[]): readonly Pair[] {
  const sorted = [...pairs].sort(
    (a, b) => a.source.prefixLength - b.source.prefixLength || a.destination.prefixLength - b.destination.prefixLength,
  )
  // By source: most sources do not contain each other, and their pairs need no look at all.
  const done = new Map<string, { readonly source: Cidr; readonly pairs: Pair[] }>()
  for (const pair of sorted) {
    const { source } = pair
    const covering = [...done.values()].filter((other) => contains(other.source, source))
    const left = remainder(
      pair,
      covering.flatMap((other) => other.pairs),
    )
    const key = formatCidr(source)
    const own = done.get(key)
    if (own === undefined) done.set(key, { source, pairs: [...left] })
    else own.pairs.push(...left)
  }
  return [...done.values()].flatMap(({ pairs: found }) => found)
}

/** What `covered`, pairs of sources that contain this one's, leave of the pair. */
function remainder(pair: Pair, covered: readonly Pair[]): readonly Pair[] {
  let left: readonly Cidr[] = [pair.destination]
  for (const other of covered) left = left.flatMap((cidr) => cut(cidr, other.destination))
  return left.map((destination) => ({ source: pair.source, destination }))
}

function cut(cidr: Cidr, hole: Cidr): readonly Cidr[] {
  if (contains(hole, cidr)) return []
  return overlaps(cidr, hole) ? subtract(cidr, hole) : [cidr]
}

function contains(outer: Cidr, inner: Cidr): boolean {
  return outer.family === inner.family && outer.prefixLength <= inner.prefixLength && includes(outer, inner)
}

function toCidr(text: string): readonly Cidr[] {
  const cidr = parseCidr(text)
  return cidr === undefined ? [] : [cidr]
}
