// SPDX-License-Identifier: Apache-2.0
// What `nft -j` prints of tables of somebody else (libnftables-json(5)).

import type { ForeignAct, ForeignRule, ForeignRules } from '../features/accept-place.ts'
import type { NftChain } from '../model/observed.ts'
import type { UpstreamNftRules } from '../plan/upstream/upstream-rules.ts'
import { acceptMarkOf } from './accept-commands.ts'

/** A chain of `nft -j list chains`; type, hook, priority and policy of a base chain. */
export interface ForeignChain {
  readonly family: string
  readonly table: string
  readonly name: string
  readonly type?: string
  readonly hook?: string
  readonly prio?: number
  readonly policy?: string
}

type Fields = Readonly<Record<string, unknown>>

interface Entry {
  readonly chain?: ForeignChain
  readonly rule?: {
    readonly chain: string
    readonly handle: number
    readonly comment?: string
    readonly expr?: Fields[]
  }
}

/** The chains of `nft -j list chains`. Throws SyntaxError when the text is not JSON. */
export function readForeignChains(listing: string): readonly ForeignChain[] {
  return entriesOf(listing).flatMap(({ chain }) => chain ?? [])
}

/** The rules of one chain of `nft -j list chain` or `list table`. Throws SyntaxError likewise. */
export function readForeignRules(listing: string, chain: string): ForeignRules {
  return entriesOf(listing).flatMap(({ rule }) => (rule?.chain === chain ? [ruleOf(rule)] : []))
}

/** How many rules lead to each chain, from `nft -j list table`; a map of verdicts may hold more. */
export function countForeignTargets(listing: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  const count = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [key, inner] of Object.entries(value)) {
      const target = key === 'jump' || key === 'goto' ? (inner as { target?: unknown } | null)?.target : undefined
      if (typeof target === 'string') counts.set(target, (counts.get(target) ?? 0) + 1)
      else count(inner)
    }
  }
  count(JSON.parse(listing))
  return counts
}

/** `nft -j list table` as rules of the upstream plugins are told by. Throws SyntaxError likewise. */
export function readUpstreamNftRules(listing: string): UpstreamNftRules {
  const entries = listing.trim() === '' ? [] : (entriesOf(listing) as readonly UpstreamEntry[])
  return {
    rules: entries.flatMap(({ rule }) => {
      if (rule === undefined) return []
      const { family, table, chain, handle, comment = '', expr = [] } = rule
      return { family, table, chain, handle, comment, texts: textsIn(expr), source: sourceIn(expr) }
    }),
    chains: entries.flatMap(({ chain }) =>
      chain === undefined ? [] : { family: chain.family, table: chain.table, chain: chain.name },
    ),
  }
}

type UpstreamEntry = Pick<Entry, 'chain'> & { readonly rule?: Entry['rule'] & NftChain }

/** Every text in an expression, on any level. */
function textsIn(value: unknown): ReadonlySet<string> {
  if (typeof value === 'string') return new Set([value])
  if (typeof value !== 'object' || value === null) return new Set()
  return new Set(Object.values(value).flatMap((inner) => [...textsIn(inner)]))
}

/** The source that the expression compares with, where it is one address or name. */
function sourceIn(expr: readonly Fields[]): string | undefined {
  const matches = expr.flatMap(({ match }) => (match as Match | undefined) ?? [])
  const source = matches.find(({ left }) => left?.payload?.field === 'saddr')?.right
  return typeof source === 'string' ? source : undefined
}

interface Match {
  readonly left?: { readonly payload?: { readonly field?: unknown } }
  readonly right?: unknown
}

/** Rules by their handles as `nft -a list chain` shows them: for people. */
export function readRuleTexts(listing: string): ReadonlyMap<string, string> {
  const lines = listing.split('\n').map((line) => /^\t\t(.*) # handle (\d+)$/.exec(line))
  return new Map(lines.flatMap((found) => (found ? [[found[2] ?? '', found[1] ?? ''] as const] : [])))
}

function entriesOf(listing: string): readonly Entry[] {
  return (JSON.parse(listing) as { nftables?: readonly Entry[] }).nftables ?? []
}

const verdicts: Readonly<Record<string, ForeignAct>> = {
  accept: 'accept',
  drop: 'drop',
  reject: 'drop',
  return: 'return',
  queue: 'end',
  jump: 'jump',
  goto: 'goto',
}

/** Statements that every packet passes: nft(8), "STATEMENTS". What is none of them, nor a verdict, may not match. */
const passing = ['counter', 'log', 'mangle', 'notrack', 'ct helper', 'ct timeout', 'last']

/** Extensions of iptables that nft shows by name only. */
const xtActs: Readonly<Record<string, ForeignAct>> = { REJECT: 'drop', LOG: 'log', NFLOG: 'log', NFQUEUE: 'end' }

function ruleOf(rule: NonNullable<Entry['rule']>): ForeignRule {
  const statements = (rule.expr ?? []).flatMap((each) => Object.entries(each))
  const found = statements.map(([key, value]) => actOf(key, value)).filter((act) => act !== undefined)
  const isLog = statements.some(([key]) => key === 'log')
  const act = found.at(-1) ?? (isLog ? 'log' : 'none')
  const conditions = statements.filter(([key, value]) => actOf(key, value) === undefined && !isPassing(key, value))
  const last = statements.at(-1)
  const target = last?.[0] === 'jump' || last?.[0] === 'goto' ? String((last[1] as Fields)['target']) : undefined
  const ourMark = act === 'accept' ? acceptMarkOf(rule.comment ?? '') : undefined
  return {
    id: String(rule.handle),
    act: act === 'none' ? hiddenAct(conditions) : isOfInvalid(act, conditions) ? 'none' : act,
    ...(target === undefined ? {} : { target }),
    isUnconditional: conditions.length === 0,
    ...(ourMark === undefined ? {} : { ourMark }),
    text: `handle ${rule.handle}`,
  }
}

function actOf(key: string, value: unknown): ForeignAct | undefined {
  const { type, name } = key === 'xt' ? (value as { type?: string; name?: string }) : {}
  return type === 'target' ? (xtActs[name ?? ''] ?? 'none') : verdicts[key]
}

function isPassing(key: string, value: unknown): boolean {
  return passing.includes(key) || (key === 'xt' && (value as { name?: string }).name === 'comment')
}

/** A map of verdicts may drop; that of what conntrack calls invalid concerns nobody's connection. */
function hiddenAct(conditions: readonly (readonly [string, unknown])[]): ForeignAct {
  const maps = conditions.filter(([key]) => key === 'vmap').map(([, value]) => JSON.stringify(value))
  const drops = maps.some((text) => text.replaceAll('["invalid",{"drop":null}]', '').includes('{"drop":null}'))
  return drops ? 'drop' : 'none'
}

function isOfInvalid(act: ForeignAct, conditions: readonly (readonly [string, unknown])[]): boolean {
  const [only] = conditions
  if (act !== 'drop' || conditions.length !== 1 || only?.[0] !== 'match') return false
  const { left, right } = only[1] as { left?: unknown; right?: unknown }
  return right === 'invalid' && JSON.stringify(left) === '{"ct":{"key":"state"}}'
}
