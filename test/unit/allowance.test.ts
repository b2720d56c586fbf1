// SPDX-License-Identifier: Apache-2.0
// What the tests of the suites let stay in our tables: whatever a pod could leave there is seen.

import { describe, expect, it } from 'vitest'
import { ruleComment } from '../../src/plan/rules/ruleset.ts'
import { withoutSharedRules } from '../support/allowance.ts'

const known = new Set(['10.240.0.0/24', 'fd00:240::/64', 'cni0'])
const table = (...parts: readonly string[]) => `table inet trestle {\n${parts.join('\n')}}\n`
const set = (name: string, elements: string) => `\tset ${name} {\n\t\ttype x\n\t\telements = { ${elements} }\n\t}\n`
const chain = (name: string, ...rules: readonly string[]) =>
  `\tchain ${name} {\n${rules.map((rule) => `\t\t${rule}\n`).join('')}\t}\n`
const jump = `fib daddr type local jump hostports comment "${ruleComment('local')}"`
const hook = 'type nat hook prerouting priority -90; policy accept;'

describe('what may stay in our tables', () => {
  it.each([
    ['elements of a network', set('masq4', '10.240.0.0/24')],
    ['pairs of a network', set('keep6', 'fd00:240::/64 . fd00:240::/64')],
    ['a bridge', set('loopback', '"cni0"')],
    ['a chain of the table', chain('prerouting', hook, jump)],
  ])('%s', (_, part) => {
    expect(withoutSharedRules(table(part), known)).toBe('')
  })

  it.each([
    ['an element of no network', set('masq4', '10.240.0.0/24, 10.9.0.0/24')],
    ['a pair with a side of no network', set('keep4', '10.240.0.0/24 . 10.9.0.0/24')],
    ['a host port', set('anyports4', 'tcp . 8080 : 10.240.0.2 . 80')],
    ['a pod’s link', set('loopback', '"cni0", "veth0123456789a"')],
    ['a chain of a pod', chain('pod4_571015310e3c57b6', 'ip saddr 1.2.3.4 goto translate comment "x"')],
    ['a rule that is not the table’s', chain('prerouting', hook, jump, 'ip saddr 10.240.0.2 drop')],
    ['a rule that is there twice', chain('prerouting', hook, jump, jump)],
    ['a rule in another chain than its own', chain('output', hook, jump)],
  ])('not %s', (_, part) => {
    expect(withoutSharedRules(table(part), known)).toBe(part)
  })

  it('tables of others are looked at whole', () => {
    const other = 'table inet other {\n\tset masq4 {\n\t\ttype x\n\t}\n}\n'
    expect(withoutSharedRules(`${table(set('masq4', '10.240.0.0/24'))}${other}`, known)).toBe(other)
  })
})
