// SPDX-License-Identifier: Apache-2.0
// What `nft -j list table inet trestle` prints, to an observed table (libnftables-json(5)).

import type { ObservedTable } from '../plan/model/observed.ts'
import type { SetName } from '../plan/model/op.ts'

interface NftObject {
  readonly table?: { readonly flags?: unknown }
  readonly chain?: { readonly name: string; readonly policy?: string }
  readonly rule?: { readonly chain: string; readonly comment?: string }
  readonly set?: { readonly name: string; readonly elem?: readonly unknown[] }
  readonly map?: { readonly name: string; readonly elem?: readonly unknown[] }
}

/** The table from nft's JSON. Throws SyntaxError when the text is not JSON. */
export function readTable(stdout: string): ObservedTable {
  const objects = (JSON.parse(stdout) as { nftables: readonly NftObject[] }).nftables
  const rules = new Map<string, string[]>()
  const elements = new Map<SetName, ReadonlySet<string>>()
  for (const entry of objects) {
    if (entry.chain) rules.set(entry.chain.name, rules.get(entry.chain.name) ?? [])
    if (entry.rule) rules.set(entry.rule.chain, [...(rules.get(entry.rule.chain) ?? []), entry.rule.comment ?? ''])
    const set = entry.set ?? entry.map
    if (set) elements.set(set.name as SetName, new Set((set.elem ?? []).map(elementText)))
  }
  const dropping = objects.flatMap(({ chain }) => (chain?.policy === 'drop' ? [chain.name] : []))
  const hasFlags = objects.some(({ table }) => table?.flags !== undefined)
  return { rules, elements, ...(hasFlags ? { hasFlags } : {}), ...(dropping.length > 0 ? { dropping } : {}) }
}

/** An element as our own operations write it: `a`, `a/len`, `a . b`, `key : value`, `key : goto chain`. */
function elementText(element: unknown): string {
  if (Array.isArray(element) && element.length === 2) return `${elementText(element[0])} : ${elementText(element[1])}`
  if (typeof element !== 'object' || element === null) return String(element)
  const entry = element as Readonly<Record<string, unknown>>
  if ('elem' in entry) return elementText((entry['elem'] as { val: unknown }).val)
  if ('concat' in entry) return (entry['concat'] as unknown[]).map(elementText).join(' . ')
  if ('prefix' in entry) {
    const prefix = entry['prefix'] as { addr: string; len: number }
    return `${prefix.addr}/${prefix.len}`
  }
  if ('goto' in entry) return `goto ${(entry['goto'] as { target: string }).target}`
  if ('range' in entry) return (entry['range'] as unknown[]).map(elementText).join('-')
  return JSON.stringify(element)
}
