// SPDX-License-Identifier: Apache-2.0
// What `trestle agent` writes down: cluster.json, for whoever sets rules up, and agent.json, for the next agent.

import { networkOf, overlaps, parseAddress, parseCidr } from '../../cni/model/address.ts'
import { emptyMemory, type Memory, type RememberedPeer } from '../agent/memory.ts'
import type { Cluster } from '../rules/cluster-elements.ts'
import { listOf, only, optionalNumber, stored, text, texts } from './stored.ts'
import { decodeFile, encodeFile } from './versioned.ts'

const range = only<string>((value) => {
  const cidr = typeof value === 'string' ? parseCidr(value) : undefined
  return cidr !== undefined && networkOf(cidr).value === cidr.value
})

const address = only<string>((value) => typeof value === 'string' && parseAddress(value) !== undefined)

const cluster = stored<Cluster>({
  pods: ['pods', listOf(range)],
  peers: ['peers', listOf(range)],
  addresses: ['addresses', listOf(address)],
})

const peer = stored<RememberedPeer>({
  name: ['name', text],
  ranges: ['ranges', texts],
  addresses: ['addresses', texts],
  goneSinceMs: ['goneSinceMs', optionalNumber],
})

const memory = stored<Memory>({ peers: ['peers', listOf(peer)], own: ['own', texts] })

/** The cluster from JSON text; undefined where the text is something else. Nothing in it reaches nft unread. */
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

/** The cluster as JSON text. */
export function encodeCluster(value: Cluster): string {
  return encodeFile(cluster, value)
}

/** The agent's memory from JSON text; an empty one where the text is something else. */
export function decodeMemory(json: string): Memory {
  return decodeFile(memory, json) ?? emptyMemory
}

/** The agent's memory as JSON text. */
export function encodeMemory(value: Memory): string {
  return encodeFile(memory, value)
}
