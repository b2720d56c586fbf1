// SPDX-License-Identifier: Apache-2.0
// Our nftables tables as data: what exists once per machine, whatever the number of pods. Networks
// and pods only add elements. Every rule has a comment with the ruleset's version, so that a
// flushed or older table is recognised without comparing expressions. What a rule says to nft is in tools/nft.ts.
//
// Source subnets live in interval sets; destinations that keep the pod's address are pairs
// (source subnet . destination) in one set, so one rule per family serves every network. A host port
// is one element of a map, looked up only for packets to one of the node's own addresses: anything
// else is somebody else's traffic (GHSA-jv3w-x3r3-g6rm).

import type { Op } from './op.ts'

/** Our tables' name, in inet and, where MACs are checked, in bridge. Nothing else in nftables is ours. */
export const tableName = 'trestle'

/** Raise when a chain or rule changes, here or in tools/nft.ts: ADD then rebuilds a table made by another version. */
const rulesetVersion = 8

/** The chain that translates to a pod, after the conditions where a port has any. */
export const translateChain = 'translate'

/** Rules of our own, apart from those of hostAccept. Their comments have these names in the kernel. */
export type OwnRuleName =
  | 'loopback-to'
  | 'loopback-from'
  | 'loopback6'
  | `${'gate' | 'anygate' | 'port' | 'anyport' | 'hairpin' | 'self' | 'all' | 'peer' | 'masquerade'}${4 | 6}`
  | `masqhost${4 | 6}`
  | `itself${4 | 6}`
  | 'ungated'
  | 'local'
  | 'local-out'
  | 'fence'
  | 'from-loopback'
  | 'spoof'

export type RuleName = OwnRuleName | AcceptRuleName

interface RuleDeclaration {
  readonly name: RuleName
  readonly comment: string
}

/** Where a base chain is called. `priority`: a number, or one that nft has a name for. */
interface Hook {
  readonly type: 'filter' | 'nat'
  readonly at: 'prerouting' | 'forward' | 'output' | 'postrouting'
  readonly priority: number | 'raw' | 'filter' | 'srcnat'
}

export interface ChainDeclaration {
  readonly name: string
  readonly hook?: Hook
  readonly rules: readonly RuleDeclaration[]
}

const chains: readonly ChainDeclaration[] = [
  {
    // What route_localnet opens for host ports on 127.0.0.1 is closed here, before conntrack: replies
    // of a mapping come with the gateway's address, so a loopback address from a pod is never right
    // (the CVE-2020-8558 class).
    name: 'guard',
    hook: { type: 'filter', at: 'prerouting', priority: 'raw' },
    rules: rulesOf('loopback-to', 'loopback-from'),
  },
  // Ports with conditions go by their own chain, and from there to `translate` or nowhere.
  { name: 'hostports', rules: rulesOf('loopback6', 'gate4', 'anygate4', 'gate6', 'anygate6', 'ungated') },
  { name: translateChain, rules: rulesOf('port4', 'anyport4', 'port6', 'anyport6') },
  // After dstnat (-100), where kube-proxy translates in iptables and in nftables mode: the first
  // translation of a connection stands, so a NodePort or service wins over a host port of ours.
  { name: 'prerouting', hook: { type: 'nat', at: 'prerouting', priority: -90 }, rules: rulesOf('local') },
  { name: 'output', hook: { type: 'nat', at: 'output', priority: -90 }, rules: rulesOf('local-out') },
  {
    name: 'forward',
    hook: { type: 'filter', at: 'forward', priority: 'filter' },
    rules: rulesOf('itself4', 'itself6', 'fence'),
  },
  {
    name: 'postrouting',
    // srcnat (100), where upstream and kube-proxy masquerade too: the first NAT decision of a
    // connection wins, and ours only speaks for our own networks' sources.
    hook: { type: 'nat', at: 'postrouting', priority: 'srcnat' },
    rules: rulesOf(
      ...(['hairpin4', 'hairpin6', 'self4', 'self6', 'from-loopback', 'all4', 'all6'] as const),
      // Before the next rules, so that a range of another node needs one element, not one for each range here.
      ...(['peer4', 'peer6', 'masquerade4', 'masquerade6', 'masqhost4', 'masqhost6'] as const),
    ),
  },
]

/** The second table: a pod's frames with another MAC than its own (macspoofchk) are dropped at its port. */
const bridgeChains: readonly ChainDeclaration[] = [
  { name: 'prerouting', hook: { type: 'filter', at: 'prerouting', priority: -300 }, rules: rulesOf('spoof') },
]

/** The sets and chains of one of our tables. `mark`: of packets that other firewalls are to let pass. */
export function declarationsOf(
  table: TableFamily,
  mark?: number,
): {
  readonly sets: readonly SetName[]
  readonly chains: readonly ChainDeclaration[]
} {
  if (table === 'bridge') return { sets: setsIn('bridge'), chains: bridgeChains }
  return { sets: setsIn('inet'), chains: [...chains, ...acceptChains(mark)] }
}

export function tableRemoval(table: TableFamily): Op {
  return { in: 'host', kind: 'nft.table.del', table, why: `remove the nft table ${table} ${tableName}` }
}

export interface ListedBase {
  readonly isDormant: boolean
  readonly comments: ReadonlySet<string>
}

/** Whether our chains have every rule of this version. `tables`: those listed; `mark`: as in declarationsOf. */
export function isBaseComplete(listed: ListedBase, tables: readonly TableFamily[], mark?: number): boolean {
  const rules = tables.flatMap((table) => declarationsOf(table, mark).chains).flatMap((chain) => chain.rules)
  return !listed.isDormant && rules.every(({ comment }) => listed.comments.has(comment))
}

/** A rule's comment: by it a flushed or older rule is recognised. */
export function ruleComment(name: string): string {
  return `trestle ${rulesetVersion} ${name}`
}

/** Whether another version of the ruleset is there: which rules and elements it is to have is not known. */
export function isOfOtherVersion(comments: Iterable<string>): boolean {
  const own = [...comments].filter((comment) => /^trestle \d+ /.test(comment))
  return own.length > 0 && !own.some((comment) => comment.startsWith(ruleComment('')))
}

function rulesOf(...names: readonly OwnRuleName[]): readonly RuleDeclaration[] {
  return names.map((name) => ({ name, comment: ruleComment(name) }))
}

// The sets and maps of our nftables tables by their names in the kernel, and what each holds.

/** The families of nftables that we have a table in: the second one only where MACs are checked. */
export type TableFamily = 'inet' | 'bridge'

/** What one field of a key or a value holds. `chain`: the map sends packets there. */
export type FieldKind = 'address4' | 'address6' | 'prefix4' | 'prefix6' | 'protocol' | 'port' | 'link' | 'mac' | 'chain'

/** A set, or a map where it has a `value`. A set of prefixes refuses those that overlap. */
interface SetSpec {
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
  /** Sources without a subnet, each a pod's own; among them, and to these destinations, the address is kept. */
  masqhost4: { table: inet, key: ['address4'] },
  masqhost6: { table: inet, key: ['address6'] },
  keephost4: { table: inet, key: ['address4', 'prefix4'] },
  keephost6: { table: inet, key: ['address6', 'prefix6'] },
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

export function setSpec(set: SetName): SetSpec {
  return sets[set]
}

export function setsIn(table: TableFamily): readonly SetName[] {
  return (Object.keys(sets) as SetName[]).filter((name) => sets[name].table === table)
}

export function isSetName(name: string): name is SetName {
  return Object.hasOwn(sets, name)
}

// firewall.hostAccept in our own table: which forwarded packets other firewalls are to let pass. Sets keyed by network
// decide, one bit of the packet mark carries the decision to the chains of others (host-accept.ts).

/** What each says to nft is in tools/nft.ts. */
export type AcceptRuleName =
  | 'admit-clear'
  | `admit-${'from' | 'to'}${'' | 4 | 6}`
  | 'answer'
  | 'translated'
  | `new${4 | 6}`
  | `${'peer' | 'node'}-new${4 | 6}`
  | 'unmark'

/** Where packets are judged. A base chain that runs before it cannot be told anything by a mark. */
export const acceptPriority = -149

/** What is sent to pods. By peers: pods of other nodes, and those nodes, as the second hop of a NodePort is. */
const admitted: readonly AcceptRuleName[] = [
  ...(['answer', 'translated', 'new4', 'new6', 'peer-new4', 'peer-new6', 'node-new4', 'node-new6'] as const),
]

/** Whoever had the bit set before us would be let in by our accept. Then what pods send, and what is sent to them. */
const admit: readonly AcceptRuleName[] = [
  ...(['admit-clear', 'admit-from', 'admit-from4', 'admit-from6', 'admit-to', 'admit-to4', 'admit-to6'] as const),
]

/**
 * The chains; without rules where no network wants an accept, so that nobody's marks are touched. They come right after
 * mangle (-150), where others set and save whole marks, and before every filter chain; the bit is gone again right
 * before mangle's postrouting, so that no CONNMARK saves it for packets to come.
 */
function acceptChains(mark: number | undefined): readonly ChainDeclaration[] {
  const rulesOf = (names: readonly AcceptRuleName[]) =>
    mark === undefined ? [] : names.map((name) => ({ name, comment: ruleComment(`${name} ${markText(mark)}`) }))
  return [
    { name: 'admitted', rules: rulesOf(admitted) },
    { name: 'admit', hook: { type: 'filter', at: 'forward', priority: acceptPriority }, rules: rulesOf(admit) },
    { name: 'unmark', hook: { type: 'filter', at: 'postrouting', priority: -151 }, rules: rulesOf(['unmark']) },
  ]
}

export function markText(mark: number): string {
  return `0x${mark.toString(16)}`
}
