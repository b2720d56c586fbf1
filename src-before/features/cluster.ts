// SPDX-License-Identifier: Apache-2.0
// The cluster around this node as elements: what its pods send to pods of other nodes keeps their address, and other
// nodes and their pods may come in. `trestle agent` writes it down; who sets rules up reads it
// (system/store/cluster.ts).

import { formatAddress, networkOf, overlaps, parseAddress, parseCidr } from '../cni/address.ts'
import { decodeFile, listOf, type Of, object, only } from '../model/kinds.ts'
import { type Element, keyText } from '../model/op.ts'
import { subnetElements } from './masquerade.ts'

/**
 * What rules know of the cluster. `pods`: ranges of this node's pods; `peers`: those of other nodes', CIDRs without
 * host bits, none of which overlaps one of `pods`; `addresses`: of other nodes.
 */
export type Cluster = Of<typeof cluster>

const range = only<string>((value) => {
  const cidr = typeof value === 'string' ? parseCidr(value) : undefined
  return cidr !== undefined && networkOf(cidr).value === cidr.value
})

const address = only<string>((value) => typeof value === 'string' && parseAddress(value) !== undefined)

const cluster = object({ pods: listOf(range), peers: listOf(range), addresses: listOf(address) })

/** cluster.json; undefined where the text is something else. Nothing in it reaches nft unread. */
export function decodeCluster(json: string): Cluster | undefined {
  const found = decodeFile(cluster, json)
  return found !== undefined && isApart(found) ? found : undefined
}

function isApart({ pods, peers }: Cluster): boolean {
  const podRanges = pods.flatMap((each) => parseCidr(each) ?? [])
  return !peers
    .flatMap((each) => parseCidr(each) ?? [])
    .some((other) => podRanges.some((each) => overlaps(each, other)))
}

/** Sets that hold nothing else. */
export const clusterSets = ['podnet4', 'podnet6', 'peernet4', 'peernet6', 'peeraddr4', 'peeraddr6'] as const

export function clusterElements({ pods, peers, addresses }: Cluster): readonly Element[] {
  return [
    ...subnetElements('podnet', pods),
    ...subnetElements('peernet', peers),
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

function addressElement(text: string): readonly Element[] {
  const address = parseAddress(text)
  return address === undefined ? [] : [{ set: `peeraddr${address.family}` as const, key: [formatAddress(address)] }]
}
