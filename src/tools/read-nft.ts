// SPDX-License-Identifier: Apache-2.0
// What nft prints of our tables: as JSON with elements (libnftables-json(5)), and as text without them.

import { type Element, indexElements } from '../model/elements.ts'
import type { ObservedTable } from '../model/observed.ts'
import { isSetName, setSpec } from '../model/sets.ts'
import type { ListedBase } from '../model/tables.ts'

interface NftObject {
  readonly table?: { readonly flags?: unknown }
  readonly chain?: { readonly name: string; readonly policy?: string }
  readonly rule?: { readonly chain: string; readonly comment?: string }
  readonly set?: NftSet
  readonly map?: NftSet
}

interface NftSet {
  readonly name: string
  readonly elem?: readonly unknown[]
}

/** The table from the JSON of `nft -j list table`. Throws SyntaxError when the text is not JSON. */
export function readTable(stdout: string): ObservedTable {
  const objects = (JSON.parse(stdout) as { nftables: readonly NftObject[] }).nftables
  const rules = new Map<string, string[]>()
  for (const { chain, rule } of objects) {
    if (chain) rules.set(chain.name, rules.get(chain.name) ?? [])
    if (rule) rules.set(rule.chain, [...(rules.get(rule.chain) ?? []), rule.comment ?? ''])
  }
  const elements = indexElements(objects.flatMap(({ set, map }) => elementsOf(set ?? map)))
  const dropping = objects.flatMap(({ chain }) => (chain?.policy === 'drop' ? [chain.name] : []))
  const hasFlags = objects.some(({ table }) => table?.flags !== undefined)
  return { rules, elements, ...(hasFlags ? { hasFlags } : {}), ...(dropping.length > 0 ? { dropping } : {}) }
}

/** The comments of rules in what `nft -t list table` printed, of one table or of several. */
export function readBase(listing: string): ListedBase {
  const comments = [...listing.matchAll(/\bcomment "([^"]*)"/g)].map(([, comment = '']) => comment)
  return { isDormant: listing.includes('flags dormant'), comments: new Set(comments) }
}

/** A set that is none of ours has none. */
function elementsOf(listed: NftSet | undefined): readonly Element[] {
  const set = listed?.name ?? ''
  if (!isSetName(set)) return []
  const isMap = setSpec(set).value !== undefined
  return (listed?.elem ?? []).map((element) => {
    if (!isMap || !Array.isArray(element)) return { set, key: fieldsOf(element) }
    return { set, key: fieldsOf(element[0]), value: fieldsOf(element[1]) }
  })
}

function fieldsOf(value: unknown): readonly string[] {
  const bare = unwrapped(value)
  const parts = typeof bare === 'object' ? (bare as { concat?: readonly unknown[] } | null)?.concat : undefined
  return parts === undefined ? [fieldText(bare)] : parts.map((part) => fieldText(unwrapped(part)))
}

/** An element with a comment, a counter or a time-out is wrapped. */
function unwrapped(value: unknown): unknown {
  return (value as { elem?: { val: unknown } } | null)?.elem?.val ?? value
}

/** As our own elements have it: an address, `address/length`, a name or a number, the chain of a verdict. */
function fieldText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value)
  const entry = value as Readonly<Record<string, unknown>>
  if ('prefix' in entry) {
    const prefix = entry['prefix'] as { addr: string; len: number }
    return `${prefix.addr}/${prefix.len}`
  }
  if ('goto' in entry) return (entry['goto'] as { target: string }).target
  if ('range' in entry) return (entry['range'] as unknown[]).map(fieldText).join('-')
  return JSON.stringify(value)
}

/**
 * Whether nft has told of its commit, to the end of the line (nft 1.0.6, src/monitor.c, netlink_events_newgen_cb): what
 * is printed before that is no answer yet.
 */
export function isCommitted(stdout: string): boolean {
  return /^# new generation \d+ by process \d+ \(.*\)\n/m.test(stdout)
}
