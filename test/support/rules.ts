// SPDX-License-Identifier: Apache-2.0
// The names in our nftables tables, as `nft list table` shows them: chains with the comments of their rules, and chains
// of conditions.

import { createHash } from 'node:crypto'

/** The families that we have a table in. */
export type TableFamily = 'inet' | 'bridge'

// The core that is being written (build.mjs --next) has rules of its own until it takes the place of src.
const isNext = process.env['CNI_BIN']?.includes('/next/') ?? false

/** It is in the comment of each rule. */
const rulesetVersion = isNext ? 100 : 8

/** The rules of each chain by their names. */
const ruleNames: Readonly<Record<TableFamily, Readonly<Record<string, readonly string[]>>>> = {
  inet: {
    guard: ['loopback-to', 'loopback-from'],
    ...(isNext
      ? { hostports: ['loopback6', 'port4', 'port6', 'anyport4', 'anyport6'] }
      : {
          hostports: ['loopback6', 'gate4', 'anygate4', 'gate6', 'anygate6', 'ungated'],
          translate: ['port4', 'anyport4', 'port6', 'anyport6'],
        }),
    prerouting: isNext ? ['loopback4', 'local'] : ['local'],
    output: ['local-out'],
    forward: ['itself4', 'itself6', 'fence'],
    postrouting: [
      ...['hairpin4', 'hairpin6', 'self4', 'self6', 'from-loopback', 'all4', 'all6'],
      ...['peer4', 'peer6', 'masquerade4', 'masquerade6', 'masqhost4', 'masqhost6'],
    ],
  },
  bridge: { prerouting: ['spoof'] },
}

/** Chains of the table inet for hostAccept: they have rules where a mark is used, which is in their comments. */
const acceptRuleNames: Readonly<Record<string, readonly string[]>> = {
  admitted: ['answer', 'translated', 'new4', 'new6', 'peer-new4', 'peer-new6', 'node-new4', 'node-new6'],
  admit: ['admit-clear', 'admit-from', 'admit-from4', 'admit-from6', 'admit-to', 'admit-to4', 'admit-to6'],
  unmark: ['unmark'],
}

/** The comments of the rules of one of our chains; undefined where it is none of them. `mark`: of hostAccept. */
export function commentsOf(family: TableFamily, chain: string, mark?: number): readonly string[] | undefined {
  const names = ruleNames[family][chain]
  if (names !== undefined) return names.map((name) => `trestle ${rulesetVersion} ${name}`)
  const accepting = family === 'inet' ? acceptRuleNames[chain] : undefined
  if (isNext) return accepting?.map((name) => `trestle ${rulesetVersion} ${name}`)
  if (mark === undefined) return accepting && []
  return accepting?.map((name) => `trestle ${rulesetVersion} ${name} 0x${mark.toString(16)}`)
}

/** The chain that asks conditions of IPv4 before a host port is translated: of each condition, as nft prints it. */
export function conditionChain4(conditions: string): string {
  return `cond4_${createHash('sha256').update(conditions).digest('hex').slice(0, 16)}`
}
