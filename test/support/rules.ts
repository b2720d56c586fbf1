// SPDX-License-Identifier: Apache-2.0
// The names in our nftables tables, as `nft list table` shows them: chains with the comments of their rules.

/** The families that we have a table in. */
export type TableFamily = 'inet' | 'bridge'

/** It is in the comment of each rule. */
const rulesetVersion = 101

/** The rules of each chain by their names. */
const ruleNames: Readonly<Record<TableFamily, Readonly<Record<string, readonly string[]>>>> = {
  inet: {
    guard: ['loopback-to', 'loopback-from'],
    hostports: ['loopback6', 'port4', 'port6', 'anyport4', 'anyport6'],
    prerouting: ['loopback4', 'local'],
    output: ['local-out'],
    overlay: ['stranger4', 'stranger6'],
    forward: ['outer4', 'outer6', 'itself4', 'itself6', 'fence'],
    postrouting: [
      ...['hairpin4', 'hairpin6', 'self4', 'self6', 'from-loopback', 'all4', 'all6'],
      ...['peer4', 'peer6', 'masquerade4', 'masquerade6', 'masqhost4', 'masqhost6'],
    ],
    encapsulated: ['unmark-overlay'],
  },
  bridge: { prerouting: ['spoof'] },
}

/** Chains of the table inet for hostAccept: they have rules where a network asks for it. */
const acceptRuleNames: Readonly<Record<string, readonly string[]>> = {
  admitted: ['answer', 'translated', 'new4', 'new6', 'peer-new4', 'peer-new6', 'node-new4', 'node-new6'],
  admit: ['admit-clear', 'admit-from', 'admit-from4', 'admit-from6', 'admit-to', 'admit-to4', 'admit-to6'],
  unmark: ['unmark'],
}

/** The comments of the rules of one of our chains; undefined where it is none of them. */
export function commentsOf(family: TableFamily, chain: string): readonly string[] | undefined {
  const names = ruleNames[family][chain] ?? (family === 'inet' ? acceptRuleNames[chain] : undefined)
  return names?.map((name) => `trestle ${rulesetVersion} ${name}`)
}
