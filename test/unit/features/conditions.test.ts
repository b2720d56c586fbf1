// SPDX-License-Identifier: Apache-2.0
// The grammar of portmap.conditionsV4 and V6: what it takes, in which spelling it comes out, and that
// nothing else ever gets into a rule.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CniError } from '../../../src-before/cni/error.ts'
import { readConditions } from '../../../src-before/features/port-conditions.ts'

const read = (tokens: readonly string[], family: 4 | 6 = 4) =>
  readConditions(tokens, family, ['portmap', 'conditionsV4'])

describe('readConditions', () => {
  it.each<readonly [readonly string[], readonly string[]]>([
    [[], []],
    [['ip', 'saddr', '10.0.0.0/8'], ['ip saddr 10.0.0.0/8']],
    [['ip saddr != 10.1.2.3/8'], ['ip saddr != 10.0.0.0/8']],
    [['ip', 'daddr', '==', '192.0.2.1'], ['ip daddr 192.0.2.1']],
    [['ip', 'saddr', '{', '10.0.0.0/8,', '192.0.2.1', '}'], ['ip saddr { 10.0.0.0/8, 192.0.2.1 }']],
    [
      ['iifname', '"eth0"', 'oifname', '!=', 'eth1'],
      ['iifname "eth0"', 'oifname != "eth1"'],
    ],
    [['meta', 'mark', '0X10'], ['meta mark 0x10']],
    [['meta mark != 16'], ['meta mark != 0x10']],
    [['ct', 'state', 'new,established'], ['ct state { new, established }']],
    [
      ['ct state != invalid', 'ip saddr 10.0.0.1'],
      ['ct state != invalid', 'ip saddr 10.0.0.1'],
    ],
  ])('%j is %j', (tokens, matches) => {
    expect(read(tokens)).toEqual(matches)
  })

  it('takes the addresses of its own family only', () => {
    expect(read(['ip6 saddr fd00::/8'], 6)).toEqual(['ip6 saddr fd00::/8'])
    expect(() => read(['ip6 saddr fd00::/8'])).toThrow('ip6 is not understood')
    expect(() => read(['ip saddr fd00::/8'])).toThrow('fd00::/8 is not understood')
  })

  it.each([
    ['tcp dport 80'],
    ['ip saddr'],
    ['ip saddr 10.0.0.0/8 accept'],
    ['ip saddr 10.0.0.0/8; flush ruleset'],
    ['ip saddr { 10.0.0.0/8'],
    ['ip saddr { 10.0.0.0/8 10.1.0.0/16 }'],
    ['ip saddr @masq4'],
    ['iifname "eth*"'],
    ['iifname "a\nb"'],
    ['iifname "'],
    ['meta mark 0x100000000'],
    ['meta mark -1'],
    ['ct state new,'],
    ['meta l4proto tcp'],
    ['! ip saddr 10.0.0.0/8'],
  ])('%j is refused with code 7', (text) => {
    const refused = (() => {
      try {
        return read([text])
      } catch (error) {
        return error
      }
    })()
    expect(refused).toBeInstanceOf(CniError)
    expect((refused as CniError).code).toBe(7)
  })

  it('refuses overlapping prefixes in a list', () => {
    expect(() => read(['ip saddr { 10.0.0.0/8, 192.0.2.1, 10.1.0.0/16 }'])).toThrow('10.0.0.0/8 overlaps')
  })

  it('gives nothing but words of its grammar, and reads its own spelling again', () => {
    const word = fc.constantFrom(
      ...'ip saddr daddr != == { } , 10.0.0.0/8 192.0.2.1 iifname oifname eth0 "eth1" meta mark 7 0x7 ct state new'.split(
        ' ',
      ),
      ...['established', ';', '#', '"', '$x', '@masq4', 'accept'],
    )
    const line = /^(ip [sd]addr|[io]ifname|meta mark|ct state)( !=)? [\w."/, {}]+$/
    fc.assert(
      fc.property(fc.array(word, { maxLength: 12 }), (tokens) => {
        let matches: readonly string[]
        try {
          matches = read(tokens)
        } catch (error) {
          return error instanceof CniError && error.code === 7
        }
        return matches.every((match) => line.test(match)) && String(read(matches)) === String(matches)
      }),
      { numRuns: 2000 },
    )
  })
})
