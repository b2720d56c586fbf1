// SPDX-License-Identifier: Apache-2.0
// The sets and maps of our nftables tables: what each holds, and the name that it has in the kernel. Those names are
// of release 0.1 and stay: an update meets the tables of the release before it, and the other way round.

/** The families of nftables that we have a table in: the second one only where MACs are checked. */
export type TableFamily = 'inet' | 'bridge'

/** What one field of a key or a value holds. `chain`: the map sends packets there. */
export type FieldKind = 'address4' | 'address6' | 'prefix4' | 'prefix6' | 'protocol' | 'port' | 'link' | 'mac' | 'chain'

/** A set, or a map where it has a `value`. A set of prefixes refuses those that overlap. */
export interface SetSpec {
  readonly kernelName: string
  readonly table: TableFamily
  readonly key: readonly FieldKind[]
  readonly value?: readonly FieldKind[]
}

const inet = 'inet' as const
const bridge = 'bridge' as const

/** Every set and map, in the order in which they are made. */
export const sets = {
  /** Sources that are masqueraded. */
  masquerade4: { kernelName: 'masq4', table: inet, key: ['prefix4'] },
  masquerade6: { kernelName: 'masq6', table: inet, key: ['prefix6'] },
  /** Source and destination: the pod's address is kept between them. */
  noMasquerade4: { kernelName: 'keep4', table: inet, key: ['prefix4', 'prefix4'] },
  noMasquerade6: { kernelName: 'keep6', table: inet, key: ['prefix6', 'prefix6'] },
  /** Source and destination of one network: masqueraded where a translated packet goes back to its own link. */
  hairpin4: { kernelName: 'hairpin4', table: inet, key: ['prefix4', 'prefix4'] },
  hairpin6: { kernelName: 'hairpin6', table: inet, key: ['prefix6', 'prefix6'] },
  hairpinLinks: { kernelName: 'hairpinlink', table: inet, key: ['link', 'link'] },
  /** A pod's address, twice: the pod may reach itself through a translation. */
  selfHairpin4: { kernelName: 'self4', table: inet, key: ['address4', 'address4'] },
  selfHairpin6: { kernelName: 'self6', table: inet, key: ['address6', 'address6'] },
  /** Host ports on one address of the node, and on any. */
  hostPorts4: { kernelName: 'ports4', table: inet, key: ['address4', 'protocol', 'port'], value: ['address4', 'port'] },
  hostPorts6: { kernelName: 'ports6', table: inet, key: ['address6', 'protocol', 'port'], value: ['address6', 'port'] },
  anyHostPorts4: { kernelName: 'anyports4', table: inet, key: ['protocol', 'port'], value: ['address4', 'port'] },
  anyHostPorts6: { kernelName: 'anyports6', table: inet, key: ['protocol', 'port'], value: ['address6', 'port'] },
  /** Host ports with conditions: the chain that asks them. */
  conditionalPorts4: { kernelName: 'gates4', table: inet, key: ['address4', 'protocol', 'port'], value: ['chain'] },
  conditionalPorts6: { kernelName: 'gates6', table: inet, key: ['address6', 'protocol', 'port'], value: ['chain'] },
  anyConditionalPorts4: { kernelName: 'anygates4', table: inet, key: ['protocol', 'port'], value: ['chain'] },
  anyConditionalPorts6: { kernelName: 'anygates6', table: inet, key: ['protocol', 'port'], value: ['chain'] },
  /** Ports of pods whose host ports are masqueraded for every client. */
  masqueradeAll4: { kernelName: 'masqall4', table: inet, key: ['address4', 'protocol', 'port'] },
  masqueradeAll6: { kernelName: 'masqall6', table: inet, key: ['address6', 'protocol', 'port'] },
  /** Links by which the node's 127.0.0.1 reaches host ports. */
  loopbackLinks: { kernelName: 'loopback', table: inet, key: ['link'] },
  /** ingressPolicy: links that do not reach each other, and pairs of them that do. */
  isolatedLinks: { kernelName: 'fenced', table: inet, key: ['link'] },
  isolationExempt: { kernelName: 'fencedpair', table: inet, key: ['link', 'link'] },
  /** hostAccept: links and subnets whose packets are accepted, and new connections, destination first. */
  acceptLinks: { kernelName: 'acceptlinks', table: inet, key: ['link'] },
  acceptSubnets4: { kernelName: 'acceptnet4', table: inet, key: ['prefix4'] },
  acceptSubnets6: { kernelName: 'acceptnet6', table: inet, key: ['prefix6'] },
  acceptNew4: { kernelName: 'acceptnew4', table: inet, key: ['prefix4', 'prefix4'] },
  acceptNew6: { kernelName: 'acceptnew6', table: inet, key: ['prefix6', 'prefix6'] },
  /** The cluster: ranges of this node's pods, of other nodes' pods, and other nodes' addresses. */
  ownPods4: { kernelName: 'podnet4', table: inet, key: ['prefix4'] },
  ownPods6: { kernelName: 'podnet6', table: inet, key: ['prefix6'] },
  peerPods4: { kernelName: 'peernet4', table: inet, key: ['prefix4'] },
  peerPods6: { kernelName: 'peernet6', table: inet, key: ['prefix6'] },
  peerNodes4: { kernelName: 'peeraddr4', table: inet, key: ['address4'] },
  peerNodes6: { kernelName: 'peeraddr6', table: inet, key: ['address6'] },
  /** macspoofchk: ports of a bridge whose frames are checked, and the MAC that each may have. */
  macCheckLinks: { kernelName: 'guarded', table: bridge, key: ['link'] },
  macCheckPairs: { kernelName: 'guardedmac', table: bridge, key: ['link', 'mac'] },
} as const satisfies Readonly<Record<string, SetSpec>>

export type SetName = keyof typeof sets

/** What a set holds, and where it is. */
export function setSpec(set: SetName): SetSpec {
  return sets[set]
}

/** The sets of one table. */
export function setsIn(table: TableFamily): readonly SetName[] {
  return setNames.filter((name) => sets[name].table === table)
}

/** The set with this name in the kernel; undefined where it is none of ours. */
export function setOfKernelName(kernelName: string): SetName | undefined {
  return byKernelName.get(kernelName)
}

const setNames = Object.keys(sets) as SetName[]
const byKernelName: ReadonlyMap<string, SetName> = new Map(setNames.map((name) => [sets[name].kernelName, name]))
