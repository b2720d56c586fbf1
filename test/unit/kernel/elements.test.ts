// SPDX-License-Identifier: Apache-2.0
// Our tables as the text of an nft transaction (nothing is pasted into it unread), and what nft lists of them.

import { describe, expect, it } from 'vitest'
import { differencesOf } from '../../../src/kernel/differences.ts'
import { hasRules, isCommitted, readShownTable, readTable, ruleText } from '../../../src/kernel/elements.ts'
import {
  chainsOf,
  type Element,
  elementKey,
  otherVersionIn,
  ruleComments,
  setsIn,
  type TableFamily,
  versionOf,
} from '../../../src/kernel/nft-table.ts'
import type { ObservedTable } from '../../../src/kernel/observed.ts'
import { elementOps, type Op } from '../../../src/kernel/operation.ts'
import { errorOf } from '../call.ts'

const element = (set: Element['set'], key: readonly string[], value?: readonly string[]): Element => {
  return { set, key, comment: 'c', ...(value && { value }) }
}
const add = (each: Element) => ruleText({ kind: 'element.add', element: each }, '')
const remove = (each: Element) => ruleText({ kind: 'element.delete', element: each }, '')
const tableOf = (table: TableFamily, hasAccept = true, kernel = '6.1.0') =>
  ruleText({ kind: 'table.set', table, isEmptied: false, hasAccept }, kernel)

describe('elements', () => {
  it.each<[Element, string]>([
    [element('masq4', ['10.0.0.0/24']), 'inet trestle masq4 { 10.0.0.0/24 comment "c" }'],
    [element('keep6', ['fd00::/64', 'fd00::/48']), 'inet trestle keep6 { fd00::/64 . fd00::/48 comment "c" }'],
    [
      element('anyports4', ['tcp', '80'], ['10.0.0.2', '8080']),
      'inet trestle anyports4 { tcp . 80 comment "c" : 10.0.0.2 . 8080 }',
    ],
    [element('loopback', ['cni0']), 'inet trestle loopback { "cni0" comment "c" }'],
    [element('loopback', ['br-;{}$x']), 'inet trestle loopback { "br-;{}$x" comment "c" }'],
    [
      element('guardedmac', ['veth1', '0a:00:00:00:00:01']),
      'bridge trestle guardedmac { "veth1" . 0a:00:00:00:00:01 comment "c" }',
    ],
  ])('%j', (each, text) => expect(add(each)).toBe(`add element ${text}`))

  it('are deleted by key, after they are there for certain', () => {
    expect(remove(element('anyports6', ['udp', '53'], ['fd00::2', '53'])).split('\n')).toEqual([
      'add element inet trestle anyports6 { udp . 53 comment "c" : fd00::2 . 53 }',
      'delete element inet trestle anyports6 { udp . 53 }',
    ])
  })

  const hostile = ['veth*', 'a"', 'a"; flush ruleset; "', 'a\\', 'a b', 'a\nb', '']
  const unplain = ['10.0.0.0/24, 0.0.0.0/0', '1 }\ndelete table inet other', '1; flush ruleset', '$x', '@masq4', '']
  it.each([
    ...hostile.map((field) => element('loopback', [field])),
    ...unplain.map((field) => element('masq4', [field])),
    ...unplain.map((field) => element('anyports4', ['tcp', '80'], ['10.0.0.2', field])),
    // Other fields than those of their set.
    ...[[], ['tcp'], ['tcp', '80', '81']].map((key) => element('anyports4', key, ['10.0.0.2', '80'])),
  ])('are refused where they are not plain: %j', (each) => {
    expect(errorOf(() => add(each))).toMatchObject({ code: 7 })
    expect(errorOf(() => remove(each))).toMatchObject({ code: 7 })
  })
})

describe('the tables', () => {
  it.each<TableFamily>(['inet', 'bridge'])('%s: rules name sets of their table, and each of them', (table) => {
    const rules = tableOf(table)
      .split('\n')
      .filter((line) => line.startsWith('add rule '))
    const named = rules.flatMap((line) => [...line.matchAll(/@(\w+)/g)].map(([, name = '']) => name))
    expect([...new Set(named)].sort()).toEqual([...setsIn(table)].sort())
    expect(rules.every((line) => /comment "trestle \d+ [\w-]+"$/.test(line))).toBe(true)
  })

  it('declare sets before rules, and flush chains before any is filled', () => {
    const words = tableOf('inet')
      .split('\n')
      .map((line) => line.split(' ', 2).join(' '))
    const order = ['add table', 'add set', 'add chain', 'flush chain', 'add rule']
    expect([...new Set(words.filter((each) => order.includes(each)))]).toEqual(order)
    expect(words.lastIndexOf('flush chain')).toBeLessThan(words.indexOf('add rule'))
  })

  it('lose their elements only where that is asked for', () => {
    const emptied = ruleText({ kind: 'table.set', table: 'inet', isEmptied: true, hasAccept: true }, '')
    expect(tableOf('inet')).not.toMatch(/^flush (set|map)/m)
    expect(emptied.match(/^flush (set|map) /gm)).toHaveLength(setsIn('inet').length)
  })

  it.each([
    ['5.10.0-32-cloud-amd64', 0],
    ['5.18.19', 0],
    ['5.19.0', 2],
    ['6.1.0-40-amd64', 2],
  ])('look up the way back of a routed source on Linux %s in %i rules', (kernel, count) => {
    expect(tableOf('inet', true, kernel).match(/fib saddr/g) ?? []).toHaveLength(count)
  })

  it('touch no mark where nobody asks for hostAccept', () => {
    // kube-proxy's mark, of what goes into the agent's overlay.
    expect(tableOf('inet', false).replace(/^.*@overlaylink.*$/gm, '')).not.toContain('meta mark')
    expect(tableOf('inet', true)).toContain('meta mark set meta mark | 0x1000')
  })

  it('have no packet of another machine to 127.0.0.0/8 reach a pod', () => {
    expect(tableOf('inet')).toContain('iifname @loopback ip daddr 127.0.0.0/8 drop')
    expect(tableOf('inet')).toMatch(/prerouting iifname != "lo" ip daddr 127\.0\.0\.0\/8 return/)
  })
})

/** As nftables 1.0.6 prints `nft -j list table inet trestle`. */
const listing = JSON.stringify({
  nftables: [
    { metainfo: { version: '1.0.6' } },
    { table: { family: 'inet', name: 'trestle', handle: 1 } },
    { set: { name: 'masq4', elem: [{ elem: { val: { prefix: { addr: '10.0.0.0', len: 24 } }, comment: 'c' } }] } },
    { set: { name: 'keep6', flags: ['interval'] } },
    {
      map: {
        name: 'anyports4',
        elem: [[{ elem: { val: { concat: ['tcp', 8080] }, comment: 'd' } }, { concat: ['10.0.0.2', 80] }]],
      },
    },
    { set: { name: 'fenced', elem: ['veth1'] } },
    { set: { name: 'other', elem: ['x'] } },
    { chain: { name: 'hostports' } },
    { chain: { name: 'postrouting', hook: 'postrouting', policy: 'accept' } },
    { rule: { chain: 'postrouting', handle: 5, comment: 'trestle 1 masquerade4', expr: [] } },
    { rule: { chain: 'postrouting', handle: 6, expr: [{ accept: null }] } },
  ],
})

describe('a listing', () => {
  it('is read: rules by chain, elements with their comments, nothing of sets that are not ours', () => {
    const table = readTable(listing)
    expect([...table.chains]).toEqual([
      ['hostports', []],
      ['postrouting', ['trestle 1 masquerade4', '']],
    ])
    expect([...table.elements.values()]).toEqual([
      { set: 'masq4', key: ['10.0.0.0/24'], comment: 'c' },
      { set: 'anyports4', key: ['tcp', '8080'], value: ['10.0.0.2', '80'], comment: 'd' },
      { set: 'fenced', key: ['veth1'], comment: '' },
    ])
  })

  it('names protocols where nft has their numbers, without /etc/protocols', () => {
    expect(readTable(listing.replace('"tcp",8080', '6,8080'))).toEqual(readTable(listing))
  })

  it('tells policies that drop, and a table that is switched off: nft 1.0.6 prints no JSON of such a one', () => {
    expect(readTable(listing.replace('"accept"}', '"drop"}')).droppingChains).toEqual(['postrouting'])
    expect(readTable(listing.slice(0, 200)).isDormant).toBe(true)
  })
})

describe('a listing without elements', () => {
  const shown = (comments: readonly string[], flags = '') =>
    readShownTable(
      `table inet trestle {\n${flags}\tchain a {\n${comments.map((each) => `\t\taccept comment "${each}"\n`).join('')}\t}\n}\n`,
    )
  const own = ruleComments('inet', true)

  it('shows whether every rule is there', () => {
    expect(shown(own)).toEqual({ comments: own, isDormant: false })
    expect(hasRules('inet', true, shown(own))).toBe(true)
    expect(hasRules('inet', true, shown(own.slice(1)))).toBe(false)
    expect(hasRules('inet', false, shown(ruleComments('inet', false)))).toBe(true)
    expect(hasRules('inet', true, shown([]))).toBe(false)
    expect(hasRules('inet', true, shown(own, '\tflags dormant\n'))).toBe(false)
  })

  it('of a newer version is taken as it is, of an older one not', () => {
    expect(hasRules('inet', true, shown(['trestle 100000 x']))).toBe(true)
    expect(hasRules('inet', true, shown(['trestle 1 x']))).toBe(false)
    expect([versionOf(['docker', 'trestle 7 x']), versionOf(['docker'])]).toEqual([7, undefined])
  })
})

describe('the differences', () => {
  const present = [element('masq4', ['10.0.0.0/24']), element('anyports4', ['tcp', '80'], ['10.0.0.2', '80'])]
  const whole: ObservedTable = {
    chains: new Map(
      chainsOf('inet', true).map(({ name, rules }) => [
        name,
        rules.map(([rule]) => `trestle ${versionOf(ruleComments('inet', true))} ${rule}`),
      ]),
    ),
    elements: new Map(present.map((each) => [elementKey(each), each])),
    droppingChains: [],
    isDormant: false,
  }
  const tables = (table: ObservedTable | undefined) => ({
    tables: new Map(table === undefined ? [] : [['inet', table] as const]),
  })
  const set: Op = { place: 'host', kind: 'table.set', table: 'inet', isEmptied: false, hasAccept: true, why: '' }
  const [wanted, , missing] = elementOps([...present, element('masq4', ['10.9.0.0/24'])]) as [Op, Op, Op]
  const [elsewhere] = elementOps([element('anyports4', ['tcp', '80'], ['10.0.0.3', '80'])]) as [Op]

  it.each<[string, Op, ObservedTable | undefined, readonly string[]]>([
    ['none of rules', set, whole, []],
    ['none of elements', wanted, whole, []],
    ['no table', set, undefined, ['nft table inet trestle is missing']],
    [
      'a table that is switched off',
      set,
      { ...whole, isDormant: true },
      ['nft table inet trestle is switched off (flags dormant)'],
    ],
    [
      'a chain',
      set,
      { ...whole, chains: new Map([...whole.chains].filter(([name]) => name !== 'guard')) },
      ['nft chain guard is missing'],
    ],
    [
      'a rule of others',
      set,
      { ...whole, chains: new Map([...whole.chains, ['guard', [...(whole.chains.get('guard') ?? []), '']]]) },
      ['a rule that is not ours is in nft chain guard'],
    ],
    ['an element', missing, whole, ['element 10.9.0.0/24 is missing from nft set masq4']],
    [
      'an element that leads elsewhere',
      elsewhere,
      whole,
      ['element tcp 80 -> 10.0.0.3 80 is missing from nft set anyports4'],
    ],
  ])('%s', (_, op, table, lines) => {
    expect(differencesOf(op, tables(table))).toEqual(lines)
    expect(differencesOf(op, {})).toEqual([])
  })

  it('of a table that was flushed are all of its rules', () => {
    const flushed = { ...whole, chains: new Map([...whole.chains.keys()].map((name) => [name, []])) }
    expect(differencesOf(set, tables(flushed))).toHaveLength(ruleComments('inet', true).length)
  })

  it('of rules of another version are none: CRI-O ends every pod whose CHECK fails', () => {
    const older = { ...whole, chains: new Map([['guard', ['trestle 1 loopback-to']]]) }
    expect(differencesOf(set, tables(older))).toEqual([])
    const otherOf = ({ chains }: ObservedTable) => otherVersionIn([...chains.values()].flat())
    expect([otherOf(older), otherOf(whole)]).toEqual(['trestle 1 loopback-to', undefined])
  })
})

it.each([
  ['add element inet trestle fenced { "veth1" }\n# new generation 11 by process 6140 (nft)\n', true],
  ['# new generation 11 by process 6140 (nft)', false],
  ['# new generation 11', false],
  ['comment "# new generation 11 by process 6140 (nft)"\n', false],
])('nft has committed, by %j: %s', (stdout, expected) => {
  expect(isCommitted(stdout)).toBe(expected)
})
