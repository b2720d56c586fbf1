// SPDX-License-Identifier: Apache-2.0
// Our nftables tables as data: what exists once per machine, whatever the number of pods. Networks
// and pods only add elements. Every rule has a comment with the ruleset's version, so that a
// flushed or older table is recognised without comparing expressions. What a rule says to nft is in tools/nft.ts.
//
// Source subnets live in interval sets; destinations that keep the pod's address are pairs
// (source subnet . destination) in one set, so one rule per family serves every network. A host port
// is one element of a map, looked up only for packets to one of the node's own addresses: anything
// else is somebody else's traffic (GHSA-jv3w-x3r3-g6rm).

import { type AcceptRuleName, acceptChains } from './accept-rules.ts'
import type { Op } from './op.ts'
import { type SetName, setsIn, type TableFamily } from './sets.ts'

/**
 * Our tables' name, in the inet family and, where MACs are checked, in the bridge family. Nothing else in nftables is
 * ours.
 */
export const tableName = 'trestle'

/** Raise when a chain or rule changes, here or in tools/nft.ts: ADD then rebuilds a table made by another version. */
const rulesetVersion = 6

/** The chain that translates to a pod, after the conditions where a port has any. */
export const translateChain = 'translate'

/** Rules of our own, apart from those of hostAccept. Their comments have these names in the kernel. */
export type OwnRuleName =
  | 'loopback-to'
  | 'loopback-from'
  | 'loopback6'
  | `${'gate' | 'anygate' | 'port' | 'anyport' | 'hairpin' | 'self' | 'all' | 'peer' | 'masquerade'}${4 | 6}`
  | 'ungated'
  | 'local'
  | 'local-out'
  | 'fence'
  | 'from-loopback'
  | 'spoof'

export type RuleName = OwnRuleName | AcceptRuleName

export interface RuleDeclaration {
  readonly name: RuleName
  readonly comment: string
}

/** Where a base chain is called. `priority`: a number, or one that nft has a name for. */
export interface Hook {
  readonly type: 'filter' | 'nat'
  readonly at: 'prerouting' | 'forward' | 'output' | 'postrouting'
  readonly priority: number | 'raw' | 'filter' | 'srcnat'
}

export interface ChainDeclaration {
  readonly name: string
  /** Of a base chain. */
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
  { name: 'forward', hook: { type: 'filter', at: 'forward', priority: 'filter' }, rules: rulesOf('fence') },
  {
    name: 'postrouting',
    // srcnat (100), where upstream and kube-proxy masquerade too: the first NAT decision of a
    // connection wins, and ours only speaks for our own networks' sources.
    hook: { type: 'nat', at: 'postrouting', priority: 'srcnat' },
    rules: rulesOf(
      'hairpin4',
      'hairpin6',
      'self4',
      'self6',
      'from-loopback',
      'all4',
      'all6',
      // Before the next rules, so that a range of another node needs one element, not one for each range here.
      'peer4',
      'peer6',
      'masquerade4',
      'masquerade6',
    ),
  },
]

/** The second table: a pod's frames with another MAC than its own (macspoofchk) are dropped at its port. */
const bridgeChains: readonly ChainDeclaration[] = [
  { name: 'prerouting', hook: { type: 'filter', at: 'prerouting', priority: -300 }, rules: rulesOf('spoof') },
]

/** The sets and chains of one of our tables. `mark`: of what other firewalls are to let pass (accept-mark.ts). */
export function declarationsOf(
  table: TableFamily,
  mark?: number,
): {
  readonly sets: readonly SetName[]
  readonly chains: readonly ChainDeclaration[]
} {
  if (table === 'bridge') return { sets: setsIn('bridge'), chains: bridgeChains }
  const accepting = acceptChains(mark).map((chain) => ({
    ...chain,
    rules: chain.rules.map(({ name, commentName }) => ({ name, comment: ruleComment(commentName) })),
  }))
  return { sets: setsIn('inet'), chains: [...chains, ...accepting] }
}

/** Removes one of our tables with everything in it. */
export function tableRemoval(table: TableFamily): Op {
  return { in: 'host', kind: 'nft.table.del', table, why: `remove the nft table ${table} ${tableName}` }
}

/** What a listing without elements shows of our tables. */
export interface ListedBase {
  /** Some table is switched off. */
  readonly isDormant: boolean
  readonly comments: ReadonlySet<string>
}

/**
 * Whether our chains have every rule of this ruleset version. `tables`: those that were listed; `mark`: as in
 * declarationsOf.
 */
export function isBaseComplete(listed: ListedBase, tables: readonly TableFamily[], mark?: number): boolean {
  const rules = tables.flatMap((table) => declarationsOf(table, mark).chains).flatMap((chain) => chain.rules)
  return !listed.isDormant && rules.every(({ comment }) => listed.comments.has(comment))
}

/** A rule's comment: by it a flushed or older rule is recognised. */
export function ruleComment(name: string): string {
  return `trestle ${rulesetVersion} ${name}`
}

function rulesOf(...names: readonly OwnRuleName[]): readonly RuleDeclaration[] {
  return names.map((name) => ({ name, comment: ruleComment(name) }))
}
