// SPDX-License-Identifier: Apache-2.0
// Operations as the text of an nft transaction: add-only, by key, in the right table; nothing pasted.

import { describe, expect, it } from 'vitest'
import type { Element } from '../../../src-before/model/op.ts'
import { declarationsOf, setSpec, setsIn, type TableFamily } from '../../../src-before/model/tables.ts'
import { nftText } from '../../../src-before/tools/nft.ts'
import { errorOf } from '../cni/call.ts'

const at = { in: 'host', why: 'w' } as const
const add = (element: Element) => nftText({ ...at, kind: 'nft.add', ...element })
const remove = (element: Element) => nftText({ ...at, kind: 'nft.del', ...element })

describe('the base rules', () => {
  it.each([
    ['5.10.0-32-cloud-amd64', 0],
    ['5.18.19', 0],
    ['5.19.0', 2],
    ['6.1.0-40-amd64', 2],
    [undefined, 2],
  ])('look up the way back of a routed source on Linux %s in %i rules, and have as many lines', (kernel, count) => {
    const base = { ...at, kind: 'nft.base', table: 'inet', acceptMark: 0x1000 } as const
    expect(nftText(base, kernel).match(/fib saddr/g) ?? []).toHaveLength(count)
    expect(nftText(base, kernel).split('\n')).toHaveLength(nftText(base).split('\n').length)
    expect(nftText(base, kernel)).toContain('ip saddr @acceptnet4 ')
  })
})

describe('elements', () => {
  it.each<[Element, string]>([
    [{ set: 'masq4', key: ['10.0.0.0/24'] }, 'inet trestle masq4 { 10.0.0.0/24 }'],
    [{ set: 'keep6', key: ['fd00::/64', 'fd00::/48'] }, 'inet trestle keep6 { fd00::/64 . fd00::/48 }'],
    [
      { set: 'anyports4', key: ['tcp', '80'], value: ['10.0.0.2', '8080'] },
      'inet trestle anyports4 { tcp . 80 : 10.0.0.2 . 8080 }',
    ],
    [
      { set: 'anygates4', key: ['tcp', '80'], value: ['cond4_a'] },
      'inet trestle anygates4 { tcp . 80 : goto cond4_a }',
    ],
    [{ set: 'loopback', key: ['cni0'] }, 'inet trestle loopback { "cni0" }'],
    [{ set: 'loopback', key: ['br-;{}$x'] }, 'inet trestle loopback { "br-;{}$x" }'],
    [{ set: 'guarded', key: ['veth1'] }, 'bridge trestle guarded { "veth1" }'],
    [
      { set: 'guardedmac', key: ['veth1', '0a:00:00:00:00:01'] },
      'bridge trestle guardedmac { "veth1" . 0a:00:00:00:00:01 }',
    ],
  ])('%j', (element, text) => expect(add(element)).toBe(`add element ${text}`))

  it('are deleted by key, after they are there for certain', () => {
    expect(remove({ set: 'anyports6', key: ['udp', '53'], value: ['fd00::2', '53'] }).split('\n')).toEqual([
      'add element inet trestle anyports6 { udp . 53 : fd00::2 . 53 }',
      'delete element inet trestle anyports6 { udp . 53 }',
    ])
  })

  const hostile = ['veth*', 'a"', 'a"; flush ruleset; "', 'a\\', 'a b', 'a\nb', '']
  const unplain = ['10.0.0.0/24, 0.0.0.0/0', '1 }\ndelete table inet other', '1; flush ruleset', '$x', '@masq4', '']
  it.each([
    ...hostile.map((field): Element => ({ set: 'loopback', key: [field] })),
    ...unplain.map((field): Element => ({ set: 'masq4', key: [field] })),
    ...unplain.map((field): Element => ({ set: 'anygates4', key: ['tcp', '80'], value: [field] })),
  ])('are refused when they are not plain: %j', (element) => {
    expect(errorOf(() => add(element))).toMatchObject({ code: 7 })
    expect(errorOf(() => remove(element))).toMatchObject({ code: 7 })
  })

  it('are refused with other fields than those of their set', () => {
    for (const key of [[], ['tcp'], ['tcp', '80', '81']])
      expect(errorOf(() => add({ set: 'anyports4', key, value: ['10.0.0.2', '80'] }))).toMatchObject({ code: 7 })
    expect(errorOf(() => add({ set: 'masq4', key: ['10.0.0.0/24'], value: ['x'] }))).toMatchObject({ code: 7 })
    expect(errorOf(() => add({ set: 'anyports4', key: ['tcp', '80'] }))).toMatchObject({ code: 7 })
  })
})

describe('the base', () => {
  it.each<TableFamily>(['inet', 'bridge'])('of table %s adds, and flushes its own chains only', (table) => {
    const lines = nftText({ ...at, kind: 'nft.base', table }).split('\n')
    const { sets, chains } = declarationsOf(table)
    const isOwn = new RegExp(`^(?:add (?:table|set|map|chain|rule)|flush chain) ${table} trestle\\b`)
    expect(lines.filter((line) => !isOwn.test(line))).toEqual([])
    expect(lines[0]).toBe(`add table ${table} trestle`)
    expect(lines.filter((line) => /^add (set|map) /.test(line))).toHaveLength(sets.length)
    expect(lines.filter((line) => line.startsWith('add chain '))).toHaveLength(chains.length)
    const rules = chains.flatMap((chain) => chain.rules)
    expect(lines.filter((line) => line.startsWith('add rule '))).toHaveLength(rules.length)
    for (const { comment } of rules) expect(lines.join('\n')).toContain(`comment "${comment}"`)
  })

  it('makes every chain and set before a rule names it', () => {
    const lines = nftText({ ...at, kind: 'nft.base', table: 'inet' }).split('\n')
    const firstRule = lines.findIndex((line) => line.startsWith('add rule '))
    expect(lines.slice(firstRule).every((line) => line.startsWith('add rule '))).toBe(true)
  })
})

describe('rules', () => {
  const rulesOf = (table: TableFamily) =>
    nftText({ ...at, kind: 'nft.base', table, acceptMark: 0x1000 })
      .split('\n')
      .filter((line) => line.startsWith('add rule '))

  it.each<TableFamily>(['inet', 'bridge'])('of table %s name sets of their table, and each of them', (table) => {
    const named = rulesOf(table).flatMap((line) => [...line.matchAll(/@(\w+)/g)].map(([, name]) => name))
    const ours = setsIn(table)
    expect([...new Set(named)].sort()).toEqual([...ours].sort())
  })

  it('tell what is routed back to its own link by the link, not by addresses alone', () => {
    const rules = rulesOf('inet').filter((line) => line.includes('@hairpin4'))
    expect(rules).toEqual([expect.stringContaining('iifname . oifname @hairpinlink')])
    expect(setSpec('hairpinlink').key).toEqual(['link', 'link'])
  })
})

describe('the rest', () => {
  it('shows a table, empties a set, writes a chain of conditions anew', () => {
    expect(nftText({ ...at, kind: 'nft.base.show', table: 'bridge' })).toBe('list table bridge trestle')
    expect(nftText({ ...at, kind: 'nft.flush', set: 'masq6' })).toBe('flush set inet trestle masq6')
    const chain = {
      ...at,
      kind: 'nft.chain',
      chain: 'cond4_a',
      conditions: ['ip saddr 10.0.0.0/8', 'ct state new'],
      comment: 'c',
    } as const
    expect(nftText(chain).split('\n')).toEqual([
      'add chain inet trestle cond4_a',
      'flush chain inet trestle cond4_a',
      'add rule inet trestle cond4_a ip saddr 10.0.0.0/8 ct state new goto translate comment "c"',
    ])
    for (const condition of ['x; flush ruleset', 'x\nflush ruleset', 'x # y', 'x \\', '$x'])
      expect(() => nftText({ ...chain, conditions: [condition] })).toThrow('cannot be a rule')
    expect(nftText({ ...at, kind: 'nft.table.del', table: 'inet' })).toBe('delete table inet trestle')
  })
})
