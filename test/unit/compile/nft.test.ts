// SPDX-License-Identifier: Apache-2.0
// Operations as the text of an nft transaction: add-only, by key, in the right table; nothing pasted.

import { describe, expect, it } from 'vitest'
import { nftText } from '../../../src/compile/nft.ts'
import type { SetName, TableFamily } from '../../../src/plan/model/op.ts'
import { declarationsOf } from '../../../src/plan/rules/ruleset.ts'
import { errorOf } from '../cni/model/call.ts'

const at = { in: 'host', why: 'w' } as const
const add = (set: SetName, element: string) => nftText({ ...at, kind: 'nft.add', set, element })
const remove = (set: SetName, element: string) => nftText({ ...at, kind: 'nft.del', set, element })

describe('elements', () => {
  it.each<[SetName, string, string]>([
    ['masq4', '10.0.0.0/24', 'add element inet trestle masq4 { 10.0.0.0/24 }'],
    ['keep6', 'fd00::/64 . fd00::/48', 'add element inet trestle keep6 { fd00::/64 . fd00::/48 }'],
    ['anyports4', 'tcp . 80 : 10.0.0.2 . 8080', 'add element inet trestle anyports4 { tcp . 80 : 10.0.0.2 . 8080 }'],
    ['loopback', '"cni0"', 'add element inet trestle loopback { "cni0" }'],
    ['loopback', '"br-;{}$x"', 'add element inet trestle loopback { "br-;{}$x" }'],
    ['guarded', '"veth1"', 'add element bridge trestle guarded { "veth1" }'],
    [
      'guardedmac',
      '"veth1" . 0a:00:00:00:00:01',
      'add element bridge trestle guardedmac { "veth1" . 0a:00:00:00:00:01 }',
    ],
  ])('of %s: %s', (set, element, text) => expect(add(set, element)).toBe(text))

  it('are deleted by key, after they are there for certain', () => {
    expect(remove('anyports6', 'udp . 53 : fd00::2 . 53').split('\n')).toEqual([
      'add element inet trestle anyports6 { udp . 53 : fd00::2 . 53 }',
      'delete element inet trestle anyports6 { udp . 53 }',
    ])
  })

  it.each(['"veth*"', '10.0.0.0/24, 0.0.0.0/0', '1 }\ndelete table inet other', '"a"; flush ruleset', '"a\\"', '$x'])(
    'are refused when they are not plain: %j',
    (element) => {
      expect(errorOf(() => add('loopback', element))).toMatchObject({ code: 7 })
      expect(errorOf(() => remove('loopback', element))).toMatchObject({ code: 7 })
    },
  )
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

describe('the rest', () => {
  it('shows a table, empties a set, writes a chain of conditions anew', () => {
    expect(nftText({ ...at, kind: 'nft.base.show', table: 'bridge' })).toBe('list table bridge trestle')
    expect(nftText({ ...at, kind: 'nft.flush', set: 'masq6' })).toBe('flush set inet trestle masq6')
    const chain = {
      ...at,
      kind: 'nft.chain',
      chain: 'cond4_a',
      expression: 'ct state new goto x',
      comment: 'c',
    } as const
    expect(nftText(chain).split('\n')).toEqual([
      'add chain inet trestle cond4_a',
      'flush chain inet trestle cond4_a',
      'add rule inet trestle cond4_a ct state new goto x comment "c"',
    ])
    for (const expression of ['x; flush ruleset', 'x\nflush ruleset', 'x # y', 'x \\', '$x'])
      expect(() => nftText({ ...chain, expression })).toThrow('cannot be a rule')
  })
})
