// SPDX-License-Identifier: Apache-2.0
// Operations to the text of one `nft -f -` transaction (nft(8)). Everything written is add-only
// or deletes by key, so that a transaction says nothing about what others put there meanwhile.

import { CniCode, CniError, printable } from '../cni/model/error.ts'
import type { Op, SetName } from '../plan/model/op.ts'
import { declarationsOf, type SetDeclaration, tableName, tableOf } from '../plan/rules/ruleset.ts'

/** Operations that `nft` runs. */
export type NftOp = Extract<Op, { kind: `nft.${string}` }>

/** The statement of one operation: a line, or for the base ruleset a few. */
export function nftText(op: NftOp): string {
  switch (op.kind) {
    case 'nft.base':
      return baseText(op)
    case 'nft.base.show':
      // The runner gives nft -t: sets are listed without their elements.
      return `list table ${op.table} ${tableName}`
    case 'nft.chain':
      return [
        `add chain inet ${tableName} ${op.chain}`,
        `flush chain inet ${tableName} ${op.chain}`,
        `add rule inet ${tableName} ${op.chain} ${expressionText(op.expression)} comment "${op.comment}"`,
      ].join('\n')
    case 'nft.chain.del':
      // As nft.del: what is gone already is no failure. One that is in use is, with EBUSY (nf_tables_api.c, nf_tables_delchain).
      return [`add chain inet ${tableName} ${op.chain}`, `delete chain inet ${tableName} ${op.chain}`].join('\n')
    case 'nft.flush':
      return `flush set ${setAt(op.set)}`
    case 'nft.add':
      return `add element ${setAt(op.set)} { ${elementText(op.element)} }`
    case 'nft.del':
      // nft 1.0.6 has no `destroy`: adding first makes the deletion of what is gone already succeed, and
      // fail where the key is someone else's by now.
      return [
        `add element ${setAt(op.set)} { ${elementText(op.element)} }`,
        `delete element ${setAt(op.set)} { ${elementText(keyOf(op.element))} }`,
      ].join('\n')
    default:
      return op satisfies never
  }
}

/**
 * The table with its sets and chains, rules written anew. Elements are left alone: a concurrent ADD
 * may have added its own after the records were read.
 */
function baseText({ table: family, acceptMark }: Extract<NftOp, { kind: 'nft.base' }>): string {
  const table = `${family} ${tableName}`
  const { sets, chains } = declarationsOf(family, acceptMark)
  return [
    `add table ${table}`,
    ...sets.map((set) => setText(set, table)),
    ...chains.map(
      (chain) => `add chain ${table} ${chain.name} ${chain.hook ? `{ ${chain.hook}; policy accept; }` : ''}`,
    ),
    ...chains.map((chain) => `flush chain ${table} ${chain.name}`),
    ...chains.flatMap((chain) =>
      chain.rules.map((rule) => `add rule ${table} ${chain.name} ${rule.expression} comment "${rule.comment}"`),
    ),
  ].join('\n')
}

function setText(set: SetDeclaration, table: string): string {
  if (set.data !== undefined) return `add map ${table} ${set.name} { type ${set.type} : ${set.data}; }`
  return `add set ${table} ${set.name} { type ${set.type}; ${set.flags ? `flags ${set.flags}; ` : ''}}`
}

function setAt(set: SetName): string {
  return `${tableOf(set)} ${tableName} ${set}`
}

/** The key of a map's element; a set's element is its own key. */
function keyOf(element: string): string {
  return element.split(' : ')[0] ?? element
}

/** Conditions come from the edge or from a record; in neither is a second statement. */
function expressionText(expression: string): string {
  if (/^[\w .:/@"{},!=+-]+$/.test(expression)) return expression
  throw new CniError(CniCode.invalidConfig, `"${printable(expression)}" cannot be a rule of host ports`, {
    details: 'conditions are matches of addresses, interfaces, marks and states',
  })
}

/** A link's name: nft takes all between quotes as it is (src/scanner.l, quotedstring), but reads a star at the end as a pattern. */
const linkText = /"[\w!$&(-.:-@[\]^{|}~]*[\w!$&()+,.:-@[\]^{|}~-]"/
const elementPattern = new RegExp(`^(?:${linkText.source}|[\\w.:/ -])+$`)

/** Elements are addresses, ports and link names. */
function elementText(element: string): string {
  if (elementPattern.test(element)) return element
  throw new CniError(CniCode.invalidConfig, `"${printable(element)}" cannot be an nftables set element`, {
    details: 'link names in rules have no quotes, backslash, % or #, and no * at the end',
  })
}
