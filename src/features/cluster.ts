// SPDX-License-Identifier: Apache-2.0
// The cluster around this node as elements: what its pods send to pods of other nodes keeps their address, and other
// nodes and their pods may come in. `trestle agent` writes it down; who sets rules up reads it
// (system/store/cluster.ts).

import { type Cidr, compare, formatAddress, overlaps, parseAddress, parseCidr } from '../cni/address.ts'
import { type Element, keyText } from '../model/op.ts'
import { prefixText, subnetElements } from './masquerade.ts'

/**
 * What rules know of the cluster. `pods`: ranges of this node's pods; `peers`: those of other nodes', CIDRs without
 * host bits, none of which overlaps one of `pods`; `addresses`: of other nodes.
 */
export interface Cluster {
  readonly pods: readonly string[]
  readonly peers: readonly string[]
  readonly addresses: readonly string[]
}

/** Sets that hold nothing else. */
export const clusterSets = ['podnet4', 'podnet6', 'peernet4', 'peernet6', 'peeraddr4', 'peeraddr6'] as const

/** Every element of them. */
export function clusterElements({ pods, peers, addresses }: Cluster): readonly Element[] {
  return [
    ...subnetElements('podnet', pods),
    ...outermost(peers).map((cidr) => ({ set: `peernet${cidr.family}` as const, key: [prefixText(cidr)] })),
    ...[...new Set(addresses)].flatMap(addressElement),
  ]
}

/**
 * The elements that are over and those that are new. Of lists of which one entry changed, nothing else is read: a
 * cluster of 1000 nodes has 4000 elements. The lists are canonical (plan/agent/cluster-view.ts).
 */
export function changedElements(
  before: Cluster,
  now: Cluster,
): { readonly over: readonly Element[]; readonly begun: readonly Element[] } {
  const isSame = before.peers.length === now.peers.length && before.peers.every((each, at) => each === now.peers[at])
  // One range may have been hidden by another that contains it: all of them are looked at.
  const part = (one: Cluster, other: Cluster): readonly Element[] =>
    clusterElements({
      pods: lacking(one.pods, other.pods),
      peers: isSame ? [] : one.peers,
      addresses: lacking(one.addresses, other.addresses),
    })
  const [old, young] = [part(before, now), part(now, before)]
  return { over: without(old, young), begun: without(young, old) }
}

function lacking(texts: readonly string[], others: readonly string[]): readonly string[] {
  const there = new Set(others)
  return texts.filter((text) => !there.has(text))
}

function without(elements: readonly Element[], others: readonly Element[]): readonly Element[] {
  const keys = new Set(others.map(keyOf))
  return elements.filter((each) => !keys.has(keyOf(each)))
}

function keyOf(element: Element): string {
  return `${element.set} ${keyText(element)}`
}

/** Those that no other contains: sorted, each comes right behind what contains it. There may be thousands. */
function outermost(texts: readonly string[]): readonly Cidr[] {
  const sorted = texts
    .flatMap((text) => parseCidr(text) ?? [])
    .sort((a, b) => compare(a, b) || a.prefixLength - b.prefixLength)
  const kept: Cidr[] = []
  for (const cidr of sorted) {
    const last = kept.at(-1)
    if (last === undefined || !overlaps(last, cidr)) kept.push(cidr)
  }
  return kept
}

function addressElement(text: string): readonly Element[] {
  const address = parseAddress(text)
  return address === undefined ? [] : [{ set: `peeraddr${address.family}` as const, key: [formatAddress(address)] }]
}
