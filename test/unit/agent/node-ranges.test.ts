// SPDX-License-Identifier: Apache-2.0
// Ranges and addresses against node:net and plain arithmetic, which share no code with ip-num.

import { BlockList, isIPv6 } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ClaimedRanges,
  includes,
  isSpecial,
  isWithin,
  overlaps,
  parseAddress,
  type Range,
  rangeOf,
  readPodRange,
} from '../../../src/agent/node-ranges.ts'
import { address, range } from './cluster-facts.ts'

/** Many zero groups, so that every place of `::` comes up; no IPv4 in IPv6. */
const groups = fc
  .array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff })), { minLength: 8, maxLength: 8 })
  .filter(([first, ...others]) => first !== 0 || others.slice(0, 4).some((group) => group !== 0))
const octets = fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 })
const numberOf = (parts: readonly number[], bits: bigint) =>
  parts.reduce((value, part) => (value << bits) | BigInt(part), 0n)

/** RFC 5952: the longest run of zero groups, the first of two, is `::`; one group alone stays. */
function canonical(parts: readonly number[]): string {
  const words = parts.map((part) => part.toString(16))
  for (let length = 8; length >= 2; length--)
    for (let at = 0; at + length <= 8; at++)
      if (parts.slice(at, at + length).every((part) => part === 0))
        return `${words.slice(0, at).join(':')}::${words.slice(at + length).join(':')}`
  return words.join(':')
}

/** An address, as it may be written, as it is to be written, and its number. */
const anyAddress = fc.oneof(
  octets.map((parts) => ({ written: parts.join('.'), text: parts.join('.'), value: numberOf(parts, 8n), bits: 32 })),
  groups.map((parts) => {
    const written = parts.map((part) => part.toString(16).toUpperCase().padStart(4, '0')).join(':')
    return { written, text: canonical(parts), value: numberOf(parts, 16n), bits: 128 }
  }),
)
const anyPrefix = anyAddress.chain((one) => fc.integer({ min: 0, max: one.bits }).map((length) => ({ ...one, length })))

function blockOf({ text }: Range): BlockList {
  const [net = '', length] = text.split('/')
  const list = new BlockList()
  list.addSubnet(net, Number(length), isIPv6(net) ? 'ipv6' : 'ipv4')
  return list
}

describe('an address', () => {
  it('has its number and its canonical text, whatever it is written like', () => {
    fc.assert(
      fc.property(anyAddress, ({ written, text, value, bits }) => {
        expect(parseAddress(written)).toEqual({ family: bits === 32 ? 4 : 6, value, text })
        expect(parseAddress(text)).toEqual(parseAddress(written))
      }),
    )
  })

  it.each([
    '01.2.3.4 1.2.3 1.2.3.4.5 1.2.3.256 0x1.2.3.4 1.2.3.-4 1e1.2.3.4 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9',
    '1::2::3 ::: 12345:: g:: :1 1: fe80::1%eth0 10.0.0.0/8 x',
  ])('is not %s', (list) => {
    for (const text of list.split(' ')) expect(parseAddress(text), text).toBeUndefined()
  })

  it('is none of empty text, of blanks, or of a page of text', () => {
    for (const text of ['', ' ', ' 10.0.0.1', '10.0.0.1\n', '1'.repeat(100_000)]) {
      expect(parseAddress(text)).toBeUndefined()
      expect(rangeOf(text)).toBeUndefined()
    }
  })
})

describe('a range', () => {
  it('is without its host bits, and tells of them', () => {
    fc.assert(
      fc.property(anyPrefix, ({ written, value, bits, length }) => {
        const size = 1n << BigInt(bits - length)
        const first = value - (value % size)
        const found = range(`${written}/${length}`)
        const last = first + size - 1n
        expect(found).toMatchObject({ family: bits === 32 ? 4 : 6, first, last, prefixLength: length })
        const [net = '', digits] = found.text.split('/')
        expect([address(net).value, address(net).text, digits]).toEqual([first, net, `${length}`])
        const read = readPodRange(`${written}/${length}`)
        expect(read === 'has host bits').toBe(first !== value)
      }),
    )
  })

  it('of an address alone is that address, and most are for pods', () => {
    expect([range('10.0.1.7').text, range('FD00::7').text]).toEqual(['10.0.1.7/32', 'fd00::7/128'])
    for (const text of ['10.0.2.0/24', 'fd00:2::/64', '8.8.8.0/24', '2001:db8:0:0:8000::/65'])
      expect(readPodRange(text)).toEqual(rangeOf(text))
  })

  it.each([
    ['is no CIDR', '10.0.2.0/33,fd00::/129,10.0.2/24,10.0.2.0,10.0.2.0/-1,10.0.2.0/,10.0.2.0/24 ,x'],
    ['has host bits', '10.0.2.1/24,fd00::1/64'],
    ['is no range for pods', '0.0.0.0/0,0.1.0.0/16,127.0.0.0/16,169.254.7.0/24,224.1.0.0/16,240.0.0.0/8'],
    ['is no range for pods', '::/0,::/64,::a00:0/104,fe80::/64,ff02::/16'],
  ])('for pods %s: %s', (wrong, list) => {
    for (const text of list.split(',')) expect(readPodRange(text), text).toBe(wrong)
  })

  // ranges.ts says that IPv4 in IPv6 is special, but has only ::/96 (RFC 4291, 2.5.5.1), not ::ffff:0:0/96. The
  // kernel prints such a route with dots, which rangeOf() does not read: the agent would add it in each round.
  it('is never of IPv4 in IPv6', () => {
    expect(readPodRange('::ffff:a00:200/120')).not.toMatchObject({ family: 6 })
    for (const each of ['::ffff:192.0.2.2', '::ffff:c000:202'].map(address))
      expect(each.family === 4 || isSpecial(each), each.text).toBe(true)
  })

  it('is of addresses that others can send to', () => {
    const special = ['127.0.0.1', '169.254.1.1', '224.0.0.1', '255.255.255.255', '0.0.0.0', '::', '::1', '::7f00:1']
    for (const text of [...special, 'fe80::1', 'ff02::1']) expect(isSpecial(address(text)), text).toBe(true)
    for (const text of ['10.0.0.1', '192.0.2.1', '2001:db8::1', 'fd00::1']) expect(isSpecial(address(text))).toBe(false)
  })
})

/** Few bits, so that ranges meet: the last ones of IPv4, those behind the 24th of IPv6. */
const nearRange = fc
  .record({ isIpv6: fc.boolean(), value: fc.integer({ min: 0, max: 255 }), length: fc.integer({ min: 24, max: 32 }) })
  .map(({ isIpv6, value, length }) =>
    range(isIpv6 ? `fd00:${value.toString(16)}::/${length}` : `10.0.0.${value}/${length}`),
  )
const nearAddress = fc
  .tuple(fc.boolean(), fc.integer({ min: 0, max: 255 }))
  .map(([isIpv6, value]) => address(isIpv6 ? `fd00:${value.toString(16)}::` : `10.0.0.${value}`))

describe('two ranges', () => {
  it('have an address in common, or one within the other, as node:net counts', () => {
    fc.assert(
      fc.property(nearRange, nearRange, nearAddress, (one, other, each) => {
        const familyOf = (text: string) => (isIPv6(text) ? 'ipv6' : 'ipv4')
        const has = (a: Range, text: string) => blockOf(a).check(text, familyOf(text))
        const first = ({ text }: Range) => text.split('/')[0] ?? ''
        const meet = has(one, first(other)) || has(other, first(one))
        expect([overlaps(one, other), overlaps(other, one)]).toEqual([meet, meet])
        expect(isWithin(one, other)).toBe(has(other, first(one)) && one.prefixLength >= other.prefixLength)
        expect(includes(one, each)).toBe(has(one, each.text))
      }),
    )
  })
})

describe('ClaimedRanges', () => {
  it('finds what comparing with each finds', () => {
    fc.assert(
      fc.property(
        fc.array(nearRange, { maxLength: 12 }),
        nearRange,
        fc.array(nearAddress, { maxLength: 4 }),
        (given, asked, hosts) => {
          const claimed = new ClaimedRanges()
          const there: Range[] = []
          for (const each of given) {
            const found = claimed.overlapping(each)
            expect(found !== undefined).toBe(there.some((other) => overlaps(other, each)))
            if (found !== undefined) continue
            claimed.add({ node: each.text, range: each })
            there.push(each)
          }
          const found = claimed.overlapping(asked)
          expect(found === undefined || overlaps(found.range, asked)).toBe(true)
          expect(found !== undefined).toBe(there.some((other) => overlaps(other, asked)))
          for (const host of hosts)
            expect(claimed.holding(host)?.node).toBe(there.find((other) => includes(other, host))?.text)
        },
      ),
    )
  })
})
