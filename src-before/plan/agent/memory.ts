// SPDX-License-Identifier: Apache-2.0
// What the agent remembers over a restart: ranges that led to other nodes, and its own earlier ones. A Node that is
// deleted and registered again has another range, and its pods live on.

import { formatCidr, includes, networkOf, parseAddress, parseCidr } from '../../cni/address.ts'
import { decodeFile, listOf, type Of, object, optionalNumber, text, texts } from '../../model/kinds.ts'
import type { Peer } from './cluster-view.ts'

/** A peer, and since when the cluster has no such node (milliseconds since the node booted). */
type RememberedPeer = Of<typeof peer>
const peer = object({ name: text, ranges: texts, addresses: texts, goneSinceMs: optionalNumber })

/** `own`: every range this node had, the newest last. */
export type Memory = Of<typeof memory>
const memory = object({ peers: listOf(peer), own: texts })

export const emptyMemory: Memory = { peers: [], own: [] }

/** agent.json, for the next agent; an empty memory where the text is something else. */
export function decodeMemory(json: string): Memory {
  return decodeFile(memory, json) ?? emptyMemory
}

/** The peers that the cluster had when they were seen last. */
export function rememberedPeers({ peers }: Memory): readonly Peer[] {
  return peers.filter(({ goneSinceMs }) => goneSinceMs === undefined)
}

/** A node that was replaced comes back within this time, or is another one. */
const forgetAfterMs = 3_600_000

/** More ranges than this a node has not had since its last boot. */
const mostOwn = 16

/** The memory after a view: its peers and ranges, and nodes that have just gone. */
export function remember(
  before: Memory,
  now: { peers: readonly Peer[]; own: readonly string[]; nowMs: number },
): Memory {
  const there = new Set(now.peers.map(({ name }) => name))
  const known = new Map(before.peers.map((peer) => [peer.name, peer]))
  const gone = before.peers
    .filter(({ name, ranges }) => !there.has(name) && ranges.length > 0)
    // What is later than now was written by an agent that counted from 1970.
    .map((peer) => ({ ...peer, goneSinceMs: Math.min(peer.goneSinceMs ?? now.nowMs, now.nowMs) }))
    .filter(({ goneSinceMs }) => now.nowMs - goneSinceMs < forgetAfterMs)
  const own = [...before.own.filter((range) => !now.own.includes(range)), ...now.own].slice(-mostOwn)
  return { peers: [...now.peers.map((peer) => unlessNew(peer, known.get(peer.name))), ...gone], own }
}

/** A node that was registered again has no address yet, by which it would be known for the same one. */
function unlessNew(peer: Peer, known: RememberedPeer | undefined): RememberedPeer {
  if (peer.addresses.length > 0 || known === undefined) return peer
  return { ...peer, ranges: [...new Set([...peer.ranges, ...known.ranges])], addresses: known.addresses }
}

/** The memory with the ranges of these gateways: pods may have started by an old configuration before any agent. */
export function withRangesOf(memory: Memory, gateways: readonly string[]): Memory {
  const ranges = gateways.flatMap((text) => parseCidr(text) ?? []).map((cidr) => formatCidr(networkOf(cidr)))
  const unknown = new Set(ranges.filter((range) => !memory.own.includes(range)))
  return unknown.size === 0 ? memory : { ...memory, own: [...unknown, ...memory.own] }
}

/** The earlier ranges of this node that live pods have addresses of which are in none of today's. */
export function rangesInUse({ own }: Memory, today: readonly string[], live: readonly string[]): readonly string[] {
  const cidrs = today.flatMap((text) => parseCidr(text) ?? [])
  const addresses = live
    .flatMap((text) => parseAddress(text) ?? [])
    .filter((address) => !cidrs.some((cidr) => includes(cidr, address)))
  return own.filter((text) => {
    const cidr = parseCidr(text)
    return cidr !== undefined && !today.includes(text) && addresses.some((address) => includes(cidr, address))
  })
}
