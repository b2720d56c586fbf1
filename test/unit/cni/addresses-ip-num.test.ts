// SPDX-License-Identifier: Apache-2.0
// Addresses against ip-num, which shares no code with ours: generated ones, and texts picked by hand.

import fc from 'fast-check'
import { IPv4, IPv4CidrRange, IPv6, IPv6CidrRange } from 'ip-num'
import { expect, it } from 'vitest'
import * as address from '../../../src/cni/addresses.ts'

const ipv4 = fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }).map((value) => ({ family: 4 as const, value }))
/** Many zero groups, so that every place of `::` comes up. */
const ipv6 = fc
  .array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff })), { minLength: 8, maxLength: 8 })
  .map((groups) => groups.reduce((value, group) => (value << 16n) | BigInt(group), 0n))
  .filter((value) => value >> 32n !== 0xffffn)
  .map((value) => ({ family: 6 as const, value }))
const anyAddress = fc.oneof(ipv4, ipv6)
const anyCidr = anyAddress.chain((one) =>
  fc.integer({ min: 0, max: address.bitsOf(one.family) }).map((prefixLength) => ({ ...one, prefixLength })),
)

const oracleOf = ({ family, value }: address.Address) =>
  family === 4 ? IPv4.fromNumber(value) : IPv6.fromBigInt(value)
const oracleRange = (cidr: address.Cidr) =>
  cidr.family === 4
    ? IPv4CidrRange.fromCidr(address.formatCidr(cidr))
    : IPv6CidrRange.fromCidr(`${IPv6.fromBigInt(cidr.value).toString()}/${cidr.prefixLength}`)
/** The number of addresses. */
const sizeOf = (cidr: address.Cidr) => 1n << BigInt(address.bitsOf(cidr.family) - cidr.prefixLength)

it('reads back what it writes', () => {
  fc.assert(
    fc.property(anyAddress, (one) => {
      expect(address.parseAddress(address.formatAddress(one))).toEqual(one)
    }),
  )
  fc.assert(
    fc.property(anyCidr, (one) => {
      expect(address.parseCidr(address.formatCidr(one))).toEqual(one)
    }),
  )
})

it('reads the texts of ip-num as the same numbers', () => {
  fc.assert(
    fc.property(anyAddress, (one) => {
      expect(address.parseAddress(oracleOf(one).toString())).toEqual(one)
    }),
  )
})

/** Forms that both readers know, and texts that are no address for either. */
const texts = [
  ...['0.0.0.0', '10.240.0.1', '255.255.255.255', '1.2.3', '1.2.3.4.5', '1.2.3.256', '1..2.3', '01.2.3.4', '1.2.3.0x4'],
  ...[
    '::',
    '::1',
    '1::',
    'FD00:0:0:0:0:0:0:A',
    '2001:db8:0:0:1:0:0:1',
    '1:2:3:4:5:6:7::',
    '::2:3:4:5:6:7:8',
    '64:ff9b::1',
  ],
  ...['1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', '1::2::3', ':::', '12345::', 'g::', ':1', '1:', ''],
]

it.each(texts)('reads %j as ip-num does, or not at all', (text) => {
  let value: bigint | undefined
  try {
    value = (text.includes(':') ? new IPv6(text) : new IPv4(text)).getValue()
  } catch {
    value = undefined
  }
  expect(address.parseAddress(text)?.value).toBe(value)
})

it('writes IPv6 groups without leading zeros and never leaves two zero groups standing', () => {
  fc.assert(
    fc.property(ipv6, (one) => {
      const text = address.formatAddress(one)
      expect(text).toMatch(/^[0-9a-f:]+$/)
      expect(text).not.toMatch(/(^|:)0[0-9a-f]/)
      expect(text.includes('::') || !/(^|:)0:0(:|$)/.test(text)).toBe(true)
    }),
  )
})

it('agrees with ip-num on the first and last address of a prefix', () => {
  fc.assert(
    fc.property(anyCidr, (cidr) => {
      const range = oracleRange(cidr)
      expect(address.firstOf(cidr).value).toBe(range.getFirst().getValue())
      expect(address.lastOf(cidr).value).toBe(range.getLast().getValue())
      expect(address.networkOf(cidr)).toEqual({ ...cidr, value: range.getFirst().getValue() })
    }),
  )
})

/** A prefix and a number of its family that is near it more often than not. */
const cidrAndNear = anyCidr.chain((cidr) =>
  fc.bigInt({ min: -2n, max: 2n }).chain((step) =>
    fc.constantFrom(address.firstOf(cidr).value, address.lastOf(cidr).value).map((edge) => {
      const max = (1n << BigInt(address.bitsOf(cidr.family))) - 1n
      const value = edge + step
      return { cidr, near: { family: cidr.family, value: value < 0n ? 0n : value > max ? max : value } }
    }),
  ),
)

it('agrees with ip-num on what a prefix includes, at its edges', () => {
  fc.assert(
    fc.property(cidrAndNear, ({ cidr, near }) => {
      const range = oracleRange(cidr)
      const isIn = range.getFirst().getValue() <= near.value && near.value <= range.getLast().getValue()
      expect(address.includes(cidr, near)).toBe(isIn)
    }),
  )
})

it('counts an overlap exactly when one holds the first address of the other', () => {
  fc.assert(
    fc.property(cidrAndNear, fc.nat(128), ({ cidr, near }, length) => {
      const other = { ...near, prefixLength: Math.min(length, address.bitsOf(near.family)) }
      const expected = [cidr, other].some((a) => [cidr, other].every((b) => address.includes(a, address.firstOf(b))))
      expect(address.overlaps(cidr, other)).toBe(expected)
      expect(address.overlaps(other, cidr)).toBe(expected)
    }),
  )
})

it('subtracts exactly: the rest is disjoint, without the hole, and nothing is lost', () => {
  fc.assert(
    fc.property(anyCidr, fc.nat(128), (inside, shorter) => {
      const whole = { ...inside, prefixLength: Math.max(0, inside.prefixLength - shorter) }
      const rest = address.subtract(whole, inside)
      const parts = [...rest, inside]
      for (const [i, a] of parts.entries()) {
        expect(address.includes(whole, address.firstOf(a)) && address.includes(whole, address.lastOf(a))).toBe(true)
        for (const b of parts.slice(i + 1)) expect(address.overlaps(a, b)).toBe(false)
      }
      expect(parts.reduce((sum, part) => sum + sizeOf(part), 0n)).toBe(sizeOf(whole))
    }),
  )
})
