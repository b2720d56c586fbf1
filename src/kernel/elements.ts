// SPDX-License-Identifier: Apache-2.0
// Operations on our nftables tables as text for `nft -f -` (nft(8)), and what nft lists of them. nft-table.ts has the
// tables themselves.

import { CniError, Code, printable } from '../cni/errors.ts'
import { asObject } from '../cni/json.ts'
import {
  chainsOf,
  type Element,
  elementKey,
  isNewerVersion,
  ruleComment,
  ruleComments,
  type SetName,
  setSpec,
  sets,
  setsIn,
  type TableFamily,
  tableName,
  tableOf,
  versionOf,
} from './nft-table.ts'
import type { ObservedTable } from './observed.ts'
import type { OpOf, RuleOp } from './operation.ts'

/** The statement of one operation: one line or several. `kernel`: its release, which some expressions depend on. */
export function ruleText(op: RuleOp, kernel: string): string {
  switch (op.kind) {
    case 'table.set':
      return tableText(op, kernel)
    case 'table.delete':
      return `delete table ${op.table} ${tableName}`
    case 'table.show':
      // The runner gives nft -t: sets are listed without their elements.
      return `list table ${op.table} ${tableName}`
    case 'element.add':
      return additionText(op.element)
    case 'element.delete': {
      // nft 1.0.6 has no `destroy`. Adding first makes the deletion of what is gone succeed; it fails where the key
      // leads elsewhere by now, which is somebody else's.
      const { set, key } = op.element
      return `${additionText(op.element)}\ndelete element ${setAt(set)} { ${fieldsText(key, setSpec(set).key)} }`
    }
    default:
      return op satisfies never
  }
}

function tableText(
  { table: family, isEmptied, hasAccept }: Omit<OpOf<'table.set'>, 'place' | 'why'>,
  kernel: string,
): string {
  const table = `${family} ${tableName}`
  const chains = chainsOf(family, hasAccept, kernel)
  return [
    `add table ${table}`,
    ...setsIn(family).map(setText),
    ...chains.map(
      ({ name, hook }) => `add chain ${table} ${name} ${hook === undefined ? '' : `{ ${hook}; policy accept; }`}`,
    ),
    // A rule may lead from one chain to another: all are emptied before any is filled.
    ...chains.map(({ name }) => `flush chain ${table} ${name}`),
    ...chains.flatMap(({ name, rules }) =>
      rules.map(([rule, expression]) => `add rule ${table} ${name} ${expression} comment "${ruleComment(rule)}"`),
    ),
    ...(isEmptied ? setsIn(family).map((set) => `flush ${setSpec(set).value ? 'map' : 'set'} ${setAt(set)}`) : []),
  ].join('\n')
}

const typeNames = {
  address4: 'ipv4_addr',
  address6: 'ipv6_addr',
  prefix4: 'ipv4_addr',
  prefix6: 'ipv6_addr',
  protocol: 'inet_proto',
  port: 'inet_service',
  link: 'ifname',
  mac: 'ether_addr',
} as const

type FieldKind = keyof typeof typeNames

function setText(set: SetName): string {
  const { key, value } = setSpec(set)
  const typeOf = (kinds: readonly FieldKind[]) => kinds.map((kind) => typeNames[kind]).join(' . ')
  if (value !== undefined) return `add map ${setAt(set)} { type ${typeOf(key)} : ${typeOf(value)}; }`
  const isInterval = key.some((kind) => kind.startsWith('prefix'))
  return `add set ${setAt(set)} { type ${typeOf(key)}; ${isInterval ? 'flags interval; ' : ''}}`
}

function setAt(set: SetName): string {
  return `${tableOf(set)} ${tableName} ${set}`
}

function additionText({ set, key, value, comment }: Element): string {
  const spec = setSpec(set)
  const target = value === undefined ? '' : ` : ${fieldsText(value, spec.value ?? [])}`
  return `add element ${setAt(set)} { ${fieldsText(key, spec.key)} comment "${comment}"${target} }`
}

/** nft takes a link's name between quotes as it is (src/scanner.l, quotedstring), but a star at the end is a pattern. */
const linkPattern = /^[\w!$&(-.:-@[\]^{|}~]*[\w!$&()+,.:-@[\]^{|}~-]$/
const plainPattern = /^[\w.:/-]+$/

function fieldsText(fields: readonly string[], kinds: readonly FieldKind[]): string {
  const isSafe = (field: string, at: number) => (kinds[at] === 'link' ? linkPattern : plainPattern).test(field)
  if (fields.length !== kinds.length || !fields.every(isSafe)) {
    const message = `"${printable(fields.join(' '))}" cannot be an nftables set element`
    const details = 'link names in rules have no quotes, backslash, % or #, and no * at the end'
    throw new CniError(Code.invalidConfig, 'element-unsafe', message, { details })
  }
  return fields.map((field, at) => (kinds[at] === 'link' ? `"${field}"` : field)).join(' . ')
}

/** The comments of rules in what `nft -t list table` printed, and whether the table is switched off. */
export function readShownTable(text: string): { readonly comments: readonly string[]; readonly isDormant: boolean } {
  const comments = [...text.matchAll(/\bcomment "([^"]*)"/g)].map(([, comment = '']) => comment)
  return { comments, isDormant: /^\s*flags .*\bdormant\b/m.test(text) }
}

/** Whether a listing has every rule of this version, or is of a newer version, whose rules stay. */
export function hasRules(
  table: TableFamily,
  hasAccept: boolean,
  seen: { comments: readonly string[]; isDormant: boolean },
): boolean {
  if (seen.isDormant) return false
  const there = new Set(seen.comments)
  return isNewerVersion(versionOf(there)) || ruleComments(table, hasAccept).every((comment) => there.has(comment))
}

interface Listed {
  readonly chain?: { readonly name: string; readonly policy?: string }
  readonly rule?: { readonly chain: string; readonly comment?: string }
  readonly set?: ListedSet
  readonly map?: ListedSet
}

interface ListedSet {
  readonly name: string
  readonly elem?: readonly unknown[]
}

/** What `nft -j list table` printed (libnftables-json(5)). nft 1.0.6 prints no valid JSON for a table with flags. */
export function readTable(stdout: string): ObservedTable {
  let listed: readonly Listed[]
  try {
    listed = (JSON.parse(stdout) as { nftables: readonly Listed[] }).nftables
  } catch {
    return { chains: new Map(), elements: new Map(), droppingChains: [], isDormant: true }
  }
  const chains = new Map<string, string[]>()
  for (const { chain, rule } of listed) {
    if (chain !== undefined) chains.set(chain.name, [])
    if (rule !== undefined) chains.get(rule.chain)?.push(rule.comment ?? '')
  }
  return {
    chains,
    elements: new Map(
      listed.flatMap(({ set, map }) => readElements(set ?? map)).map((element) => [elementKey(element), element]),
    ),
    droppingChains: listed.flatMap(({ chain }) => (chain?.policy === 'drop' ? [chain.name] : [])),
    isDormant: false,
  }
}

function readElements(listed: ListedSet | undefined): readonly Element[] {
  if (listed === undefined || !Object.hasOwn(sets, listed.name)) return []
  const set = listed.name as SetName
  const isMap = setSpec(set).value !== undefined
  return (listed.elem ?? []).map((entry) => {
    const [key, value] = isMap && Array.isArray(entry) ? (entry as [unknown, unknown]) : [entry, undefined]
    const element = { set, key: keyFields(set, key), comment: commentIn(key) }
    return value === undefined ? element : { ...element, value: fieldsOf(value) }
  })
}

/** An element with a comment, counter or time-out is wrapped. */
function unwrapped(value: unknown): unknown {
  return (value as { elem?: { val: unknown } } | null)?.elem?.val ?? value
}

function commentIn(value: unknown): string {
  return (value as { elem?: { comment?: string } } | null)?.elem?.comment ?? ''
}

/** nft names protocols by /etc/protocols, which a small image may lack (getprotobynumber(3)). */
const protocolNames: Readonly<Record<string, string>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' }

function keyFields(set: SetName, value: unknown): readonly string[] {
  const { key } = setSpec(set)
  return fieldsOf(value).map((field, at) => (key[at] === 'protocol' ? (protocolNames[field] ?? field) : field))
}

function fieldsOf(value: unknown): readonly string[] {
  const bare = unwrapped(value)
  const parts = asObject(bare)['concat']
  return !Array.isArray(parts) ? [readField(bare)] : parts.map((part) => readField(unwrapped(part)))
}

function readField(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value)
  const { prefix } = value as { prefix?: { addr: string; len: number } }
  return prefix === undefined ? JSON.stringify(value) : `${prefix.addr}/${prefix.len}`
}

/** Whether nft has printed the generation that it committed, to the end of the line (src/monitor.c, newgen_cb). */
export function isCommitted(stdout: string): boolean {
  return /^# new generation \d+ by process \d+ \(.*\)\n/m.test(stdout)
}
