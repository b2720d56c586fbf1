// SPDX-License-Identifier: Apache-2.0
// Operations to the text of one `nft -f -` transaction (nft(8)). Everything written is add-only
// or deletes by key, so that a transaction says nothing about what others put there meanwhile.

import { CniCode, CniError, printable } from '../cni/error.ts'
import type { Op } from '../plan/op.ts'
import { chains, sets, tableName } from '../plan/ruleset.ts'

const table = `inet ${tableName}`

/** Operations that `nft` runs. */
export type NftOp = Extract<Op, { kind: `nft.${string}` }>

/** The statement of one operation: a line, or for the base ruleset a few. */
export function nftText(op: NftOp): string {
  switch (op.kind) {
    case 'nft.base':
      return baseText()
    case 'nft.base.show':
      return chains.map((chain) => `list chain ${table} ${chain.name}`).join('\n')
    case 'nft.flush':
      return `flush set ${table} ${op.set}`
    case 'nft.add':
      return `add element ${table} ${op.set} { ${elementText(op.element)} }`
    case 'nft.del':
      return `delete element ${table} ${op.set} { ${elementText(op.element)} }`
    default:
      return op satisfies never
  }
}

/**
 * The table with its sets and chains, rules written anew. Elements are left alone: a concurrent ADD
 * may have added its own after the records were read.
 */
function baseText(): string {
  return [
    `add table ${table}`,
    ...sets.map(
      (set) => `add set ${table} ${set.name} { type ${set.type}; ${set.flags ? `flags ${set.flags}; ` : ''}}`,
    ),
    ...chains.map(
      (chain) => `add chain ${table} ${chain.name} ${chain.hook ? `{ ${chain.hook}; policy accept; }` : ''}`,
    ),
    ...chains.map((chain) => `flush chain ${table} ${chain.name}`),
    ...chains.flatMap((chain) =>
      chain.rules.map((rule) => `add rule ${table} ${chain.name} ${rule.expression} comment "${rule.comment}"`),
    ),
  ].join('\n')
}

/** Elements are addresses, prefixes, ports and our own words; anything else never reaches nft. */
function elementText(element: string): string {
  if (/^[0-9A-Za-z.:/ -]+$/.test(element)) return element
  throw new CniError(CniCode.internal, `"${printable(element)}" cannot be an nftables set element`)
}
