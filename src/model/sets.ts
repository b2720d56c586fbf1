// SPDX-License-Identifier: Apache-2.0
// The sets and maps of our nftables tables by their names in the kernel, and what each holds.

/** The families of nftables that we have a table in: the second one only where MACs are checked. */
export type TableFamily = 'inet' | 'bridge'

/** What one field of a key or a value holds. `chain`: the map sends packets there. */
export type FieldKind = 'address4' | 'address6' | 'prefix4' | 'prefix6' | 'protocol' | 'port' | 'link' | 'mac' | 'chain'

/** A set, or a map where it has a `value`. A set of prefixes refuses those that overlap. */
export interface SetSpec {
  readonly table: TableFamily
  readonly key: readonly FieldKind[]
  readonly value?: readonly FieldKind[]
}

const inet = 'inet' as const
const bridge = 'bridge' as const

/** Every set and map, in the order in which they are made. */
const sets = {
  /** Sources that are masqueraded. */
  masq4: { table: inet, key: ['prefix4'] },
  masq6: { table: inet, key: ['prefix6'] },
  /** Source and destination: the pod's address is kept between them. */
  keep4: { table: inet, key: ['prefix4', 'prefix4'] },
  keep6: { table: inet, key: ['prefix6', 'prefix6'] },
  /** Source and destination of one network: masqueraded where a translated packet goes back to its own link. */
  hairpin4: { table: inet, key: ['prefix4', 'prefix4'] },
  hairpin6: { table: inet, key: ['prefix6', 'prefix6'] },
  hairpinlink: { table: inet, key: ['link', 'link'] },
  /** A pod's address, twice: the pod may reach itself through a translation. */
  self4: { table: inet, key: ['address4', 'address4'] },
  self6: { table: inet, key: ['address6', 'address6'] },
  /** Host ports on one address of the node, and on any. */
  ports4: { table: inet, key: ['address4', 'protocol', 'port'], value: ['address4', 'port'] },
  ports6: { table: inet, key: ['address6', 'protocol', 'port'], value: ['address6', 'port'] },
  anyports4: { table: inet, key: ['protocol', 'port'], value: ['address4', 'port'] },
  anyports6: { table: inet, key: ['protocol', 'port'], value: ['address6', 'port'] },
  /** Host ports with conditions: the chain that asks them. */
  gates4: { table: inet, key: ['address4', 'protocol', 'port'], value: ['chain'] },
  gates6: { table: inet, key: ['address6', 'protocol', 'port'], value: ['chain'] },
  anygates4: { table: inet, key: ['protocol', 'port'], value: ['chain'] },
  anygates6: { table: inet, key: ['protocol', 'port'], value: ['chain'] },
  /** Ports of pods whose host ports are masqueraded for every client. */
  masqall4: { table: inet, key: ['address4', 'protocol', 'port'] },
  masqall6: { table: inet, key: ['address6', 'protocol', 'port'] },
  /** Links by which the node's 127.0.0.1 reaches host ports. */
  loopback: { table: inet, key: ['link'] },
  /** ingressPolicy: links that do not reach each other, and pairs of them that do. */
  fenced: { table: inet, key: ['link'] },
  fencedpair: { table: inet, key: ['link', 'link'] },
  /** hostAccept: links and subnets whose packets are accepted, and new connections, destination first. */
  acceptlinks: { table: inet, key: ['link'] },
  acceptnet4: { table: inet, key: ['prefix4'] },
  acceptnet6: { table: inet, key: ['prefix6'] },
  acceptnew4: { table: inet, key: ['prefix4', 'prefix4'] },
  acceptnew6: { table: inet, key: ['prefix6', 'prefix6'] },
  /** The cluster: ranges of this node's pods, of other nodes' pods, and other nodes' addresses. */
  podnet4: { table: inet, key: ['prefix4'] },
  podnet6: { table: inet, key: ['prefix6'] },
  peernet4: { table: inet, key: ['prefix4'] },
  peernet6: { table: inet, key: ['prefix6'] },
  peeraddr4: { table: inet, key: ['address4'] },
  peeraddr6: { table: inet, key: ['address6'] },
  /** macspoofchk: ports of a bridge whose frames are checked, and the MAC that each may have. */
  guarded: { table: bridge, key: ['link'] },
  guardedmac: { table: bridge, key: ['link', 'mac'] },
} as const satisfies Readonly<Record<string, SetSpec>>

export type SetName = keyof typeof sets

/** What a set holds, and where it is. */
export function setSpec(set: SetName): SetSpec {
  return sets[set]
}

/** The sets of one table. */
export function setsIn(table: TableFamily): readonly SetName[] {
  return (Object.keys(sets) as SetName[]).filter((name) => sets[name].table === table)
}

/** Whether a set of this name is one of ours. */
export function isSetName(name: string): name is SetName {
  return Object.hasOwn(sets, name)
}
