// SPDX-License-Identifier: Apache-2.0
// Our nftables table as data: what exists once per machine, whatever the number of pods. Networks
// and pods only add elements. Every rule has a comment with the ruleset's version, so that a
// flushed or older table is recognised without comparing expressions.
//
// Source subnets live in interval sets; destinations that keep the pod's address are pairs
// (source subnet . destination) in one set, so one rule per family serves every network. A host port
// is one element of a map, looked up only for packets to one of the node's own addresses: anything
// else is somebody else's traffic (GHSA-jv3w-x3r3-g6rm).

import type { SetName, TableFamily } from '../model/op.ts'
import { acceptChains } from './accept-rules.ts'

/** Our tables' name, in the inet family and, where MACs are checked, in the bridge family. Nothing else in nftables is ours. */
export const tableName = 'trestle'

/** Raise when a chain or rule below changes: ADD then rebuilds a table made by another version. */
const rulesetVersion = 4

/** The chain that translates to a pod, after the conditions where a port has any. */
export const translateChain = 'translate'

/** A set, or a map where `data` is given. */
export interface SetDeclaration {
  readonly name: SetName
  readonly type: string
  readonly data?: string
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
  { name: 'hairpin4', type: 'ipv4_addr . ipv4_addr', flags: 'interval' },
  { name: 'hairpin6', type: 'ipv6_addr . ipv6_addr', flags: 'interval' },
  { name: 'hairpinlink', type: 'ifname . ifname' },
  { name: 'self4', type: 'ipv4_addr . ipv4_addr' },
  { name: 'self6', type: 'ipv6_addr . ipv6_addr' },
  { name: 'ports4', type: 'ipv4_addr . inet_proto . inet_service', data: 'ipv4_addr . inet_service' },
  { name: 'ports6', type: 'ipv6_addr . inet_proto . inet_service', data: 'ipv6_addr . inet_service' },
  { name: 'anyports4', type: 'inet_proto . inet_service', data: 'ipv4_addr . inet_service' },
  { name: 'anyports6', type: 'inet_proto . inet_service', data: 'ipv6_addr . inet_service' },
  { name: 'gates4', type: 'ipv4_addr . inet_proto . inet_service', data: 'verdict' },
  { name: 'gates6', type: 'ipv6_addr . inet_proto . inet_service', data: 'verdict' },
  { name: 'anygates4', type: 'inet_proto . inet_service', data: 'verdict' },
  { name: 'anygates6', type: 'inet_proto . inet_service', data: 'verdict' },
  { name: 'masqall4', type: 'ipv4_addr . inet_proto . inet_service' },
  { name: 'masqall6', type: 'ipv6_addr . inet_proto . inet_service' },
  { name: 'loopback', type: 'ifname' },
  { name: 'fenced', type: 'ifname' },
  { name: 'fencedpair', type: 'ifname . ifname' },
  { name: 'acceptlinks', type: 'ifname' },
  { name: 'acceptnet4', type: 'ipv4_addr', flags: 'interval' },
  { name: 'acceptnet6', type: 'ipv6_addr', flags: 'interval' },
  { name: 'acceptnew4', type: 'ipv4_addr . ipv4_addr', flags: 'interval' },
  { name: 'acceptnew6', type: 'ipv6_addr . ipv6_addr', flags: 'interval' },
]

export const chains: readonly ChainDeclaration[] = [
  {
    // What route_localnet opens for host ports on 127.0.0.1 is closed here, before conntrack: replies
    // of a mapping come with the gateway's address, so a loopback address from a pod is never right
    // (the CVE-2020-8558 class).
    name: 'guard',
    hook: 'type filter hook prerouting priority raw',
    rules: [
      rule('loopback-to', 'iifname @loopback ip daddr 127.0.0.0/8 drop'),
      rule('loopback-from', 'iifname @loopback ip saddr 127.0.0.0/8 drop'),
    ],
  },
  {
    name: 'hostports',
    rules: [
      // ::1 is the node's: IPv6 has no route_localnet, and a packet from ::1 is dropped where it arrives
      // (net/ipv6/ip6_input.c, ip6_rcv_core).
      rule('loopback6', 'ip6 daddr ::1 return'),
      // Ports with conditions go by their own chain, and from there to `translate` or nowhere.
      rule('gate4', 'ip daddr . meta l4proto . th dport vmap @gates4'),
      rule('anygate4', 'meta nfproto ipv4 meta l4proto . th dport vmap @anygates4'),
      rule('gate6', 'ip6 daddr . meta l4proto . th dport vmap @gates6'),
      rule('anygate6', 'meta nfproto ipv6 meta l4proto . th dport vmap @anygates6'),
      rule('ungated', 'goto translate'),
    ],
  },
  {
    name: translateChain,
    rules: [
      rule('port4', 'dnat ip to ip daddr . meta l4proto . th dport map @ports4'),
      rule('anyport4', 'dnat ip to meta l4proto . th dport map @anyports4'),
      rule('port6', 'dnat ip6 to ip6 daddr . meta l4proto . th dport map @ports6'),
      rule('anyport6', 'dnat ip6 to meta l4proto . th dport map @anyports6'),
    ],
  },
  // After dstnat (-100), where kube-proxy translates in iptables and in nftables mode: the first
  // translation of a connection stands, so a NodePort or service wins over a host port of ours.
  {
    name: 'prerouting',
    hook: 'type nat hook prerouting priority -90',
    rules: [rule('local', 'fib daddr type local jump hostports')],
  },
  {
    name: 'output',
    hook: 'type nat hook output priority -90',
    rules: [rule('local-out', 'fib daddr type local jump hostports')],
  },
  {
    name: 'forward',
    hook: 'type filter hook forward priority filter',
    rules: [rule('fence', 'iifname @fenced oifname @fenced iifname . oifname != @fencedpair drop')],
  },
  {
    name: 'postrouting',
    // srcnat (100), where the reference and kube-proxy masquerade too: the first NAT decision of a
    // connection wins, and ours only speaks for our own networks' sources.
    hook: 'type nat hook postrouting priority srcnat',
    rules: [
      // Translated, and routed back to the bridge it came from: the answer would go straight to the client,
      // untranslated. With bridge-nf-call-iptables the packet never leaves the bridge, the answer is translated
      // there, and the client's address stays: such a packet has no input interface here
      // (net/bridge/br_netfilter_hooks.c, br_nf_post_routing), a routed one has since Linux 5.7 (28f8bfd1ac94).
      rule('hairpin4', 'ip saddr . ip daddr @hairpin4 iifname . oifname @hairpinlink ct status dnat masquerade'),
      rule('hairpin6', 'ip6 saddr . ip6 daddr @hairpin6 iifname . oifname @hairpinlink ct status dnat masquerade'),
      // A pod takes no packet from its own address: to itself there is no way but this.
      rule('self4', 'ip saddr . ip daddr @self4 ct status dnat masquerade'),
      rule('self6', 'ip6 saddr . ip6 daddr @self6 ct status dnat masquerade'),
      rule('from-loopback', 'oifname @loopback ip saddr 127.0.0.0/8 ct status dnat masquerade'),
      rule('all4', 'ip daddr . meta l4proto . th dport @masqall4 ct status dnat masquerade'),
      rule('all6', 'ip6 daddr . meta l4proto . th dport @masqall6 ct status dnat masquerade'),
      rule('masquerade4', 'ip saddr @masq4 ip daddr != 224.0.0.0/4 ip saddr . ip daddr != @keep4 masquerade'),
      rule('masquerade6', 'ip6 saddr @masq6 ip6 daddr != ff00::/8 ip6 saddr . ip6 daddr != @keep6 masquerade'),
    ],
  },
]

/** The second table: a pod's frames with another MAC than its own (macspoofchk) are dropped at its port. */
const bridgeSets: readonly SetDeclaration[] = [
  { name: 'guarded', type: 'ifname' },
  { name: 'guardedmac', type: 'ifname . ether_addr' },
]

const bridgeChains: readonly ChainDeclaration[] = [
  {
    name: 'prerouting',
    hook: 'type filter hook prerouting priority -300',
    rules: [rule('spoof', 'iifname @guarded iifname . ether saddr != @guardedmac drop')],
  },
]

/** The sets and chains of one of our tables. `mark`: of what other firewalls are to let pass (accept-mark.ts). */
export function declarationsOf(
  table: TableFamily,
  mark?: number,
): {
  readonly sets: readonly SetDeclaration[]
  readonly chains: readonly ChainDeclaration[]
} {
  if (table === 'bridge') return { sets: bridgeSets, chains: bridgeChains }
  const accepting = acceptChains(mark).map((chain) => ({
    ...chain,
    rules: chain.rules.map(({ name, expression }) => rule(name, expression)),
  }))
  return { sets, chains: [...chains, ...accepting] }
}

/** The table a set is in. */
export function tableOf(set: SetName): TableFamily {
  return set === 'guarded' || set === 'guardedmac' ? 'bridge' : 'inet'
}

/**
 * Whether nft's listing of our chains has every rule of this ruleset version. `tables`: those that were listed; `mark`:
 * as in declarationsOf.
 */
export function isBaseComplete(listing: string, tables: readonly TableFamily[], mark?: number): boolean {
  const declared = tables.flatMap((table) => declarationsOf(table, mark).chains)
  const comments = declared.flatMap((chain) => chain.rules.map((each) => `comment "${each.comment}"`))
  return !listing.includes('flags dormant') && comments.every((comment) => listing.includes(comment))
}

/** A rule's comment: by it a flushed or older rule is recognised. */
export function ruleComment(name: string): string {
  return `trestle ${rulesetVersion} ${name}`
}

function rule(name: string, expression: string): RuleDeclaration {
  return { comment: ruleComment(name), expression }
}
