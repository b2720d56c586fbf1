// SPDX-License-Identifier: Apache-2.0
// Our nftables table as data: what exists once per machine, whatever the number of pods. Networks
// and pods only add elements. Every rule has a comment with the ruleset's version, so that a
// flushed or older table is recognised without comparing expressions.
//
// Source subnets live in interval sets; destinations that keep the pod's address are pairs
// (source subnet . destination) in one set, so one rule per family serves every network.

import type { SetName } from './op.ts'

/** Our table, in the inet family. Nothing else in nftables is ours. */
export const tableName = 'trestle'

/** Raise when a chain or rule below changes: ADD then rebuilds a table made by another version. */
export const rulesetVersion = 1

export interface SetDeclaration {
  readonly name: SetName
  readonly type: string
  readonly flags?: 'interval'
}

export interface RuleDeclaration {
  readonly comment: string
  readonly expression: string
}

export interface ChainDeclaration {
  readonly name: string
  /** `type … hook … priority …` of a base chain. */
  readonly hook?: string
  readonly rules: readonly RuleDeclaration[]
}

export const sets: readonly SetDeclaration[] = [
  { name: 'masq4', type: 'ipv4_addr', flags: 'interval' },
  { name: 'masq6', type: 'ipv6_addr', flags: 'interval' },
  { name: 'keep4', type: 'ipv4_addr . ipv4_addr', flags: 'interval' },
  { name: 'keep6', type: 'ipv6_addr . ipv6_addr', flags: 'interval' },
]

export const chains: readonly ChainDeclaration[] = [
  {
    name: 'postrouting',
    // srcnat (100), where the reference and kube-proxy masquerade too: the first NAT decision of a
    // connection wins, and ours only speaks for our own networks' sources.
    hook: 'type nat hook postrouting priority srcnat',
    rules: [
      rule('masquerade4', 'ip saddr @masq4 ip daddr != 224.0.0.0/4 ip saddr . ip daddr != @keep4 masquerade'),
      rule('masquerade6', 'ip6 saddr @masq6 ip6 daddr != ff00::/8 ip6 saddr . ip6 daddr != @keep6 masquerade'),
    ],
  },
]

/** Whether nft's listing of our chains has every rule of this ruleset version, and no other version's. */
export function isBaseComplete(listing: string): boolean {
  const comments = chains.flatMap((chain) => chain.rules.map((each) => `comment "${each.comment}"`))
  return comments.every((comment) => listing.includes(comment))
}

function rule(name: string, expression: string): RuleDeclaration {
  return { comment: `trestle ${rulesetVersion} ${name}`, expression }
}
