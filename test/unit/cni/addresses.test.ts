// SPDX-License-Identifier: Apache-2.0
// Addresses and CIDRs: which texts are read, and what becomes of them.

import { describe, expect, it } from 'vitest'
import * as address from '../../../src/cni/addresses.ts'

const rewritten = (text: string) => {
  const parsed = address.parseAddress(text)
  return parsed && address.formatAddress(parsed)
}

const cidr = (text: string) => {
  const parsed = address.parseCidr(text)
  if (parsed === undefined) throw new Error(`not a CIDR: ${text}`)
  return parsed
}

const at = (text: string) => {
  const parsed = address.parseAddress(text)
  if (parsed === undefined) throw new Error(`not an address: ${text}`)
  return parsed
}

describe('an address', () => {
  it.each([
    ['0.0.0.0', '0.0.0.0'],
    ['10.240.0.1', '10.240.0.1'],
    ['255.255.255.255', '255.255.255.255'],
    ['::', '::'],
    ['::1', '::1'],
    ['1::', '1::'],
    ['FD00:0:0:0:0:0:0:A', 'fd00::a'],
    ['2001:0db8:0000:0000:0001:0000:0000:0001', '2001:db8::1:0:0:1'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
    ['::2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8'],
    ['::ffff:10.1.2.3', '10.1.2.3'],
    ['::ffff:a01:203', '10.1.2.3'],
    ['0:0:0:0:0:ffff:1.2.3.4', '1.2.3.4'],
    ['64:ff9b::1.2.3.4', '64:ff9b::102:304'],
    ['::1.2.3.4', '::102:304'],
  ])('%s is written %s', (text, canonical) => {
    expect(rewritten(text)).toBe(canonical)
  })

  it.each([
    '',
    ...['1.2.3', '1.2.3.4.5', '1.2.3.', '.1.2.3', '1..2.3', '01.2.3.4', '1.2.3.00', '1.2.3.256'],
    ...['1.2.3.4 ', '+1.2.3.4', '1.2.3.0x4', '1.2.3.4/24', ':', ':1', '1:', ':::', '1::2::3'],
    ...['1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7:8::', '::1:2:3:4:5:6:7:8', '12345::', 'g::'],
    ...['fe80::1%eth0', '::1.2.3', '::01.2.3.4', '1.2.3.4::', '1:2:3:4:5:6:7:1.2.3.4', '::1.2.3.4:5'],
  ])('%j is none', (text) => {
    expect(rewritten(text)).toBeUndefined()
  })
})

describe('a CIDR', () => {
  it.each([
    ['10.1.2.3/24', '10.1.2.3/24', '10.1.2.0', '10.1.2.255'],
    ['10.1.2.3/32', '10.1.2.3/32', '10.1.2.3', '10.1.2.3'],
    ['10.1.2.3/0', '10.1.2.3/0', '0.0.0.0', '255.255.255.255'],
    ['fd00::5/126', 'fd00::5/126', 'fd00::4', 'fd00::7'],
    ['FD00::/64', 'fd00::/64', 'fd00::', 'fd00::ffff:ffff:ffff:ffff'],
    ['::/0', '::/0', '::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['::ffff:10.1.2.3/120', '10.1.2.3/24', '10.1.2.0', '10.1.2.255'],
  ])('%s is %s, from %s to %s', (text, canonical, first, last) => {
    const parsed = cidr(text)
    expect(address.formatCidr(parsed)).toBe(canonical)
    expect(address.formatAddress(address.firstOf(parsed))).toBe(first)
    expect(address.formatAddress(address.lastOf(parsed))).toBe(last)
  })

  it.each([
    '10.1.2.3',
    ...['10.1.2.3/', '10.1.2.3/33', '10.1.2.3/-1', '10.1.2.3/+8', '10.1.2.3/8 ', '10.1.2/24', '/24'],
    ...['::/129', '::ffff:10.1.2.3/64', '10.1.2.3/255.255.255.0', '10.1.2.3/24/24'],
  ])('%j is none', (text) => {
    expect(address.parseCidr(text)).toBeUndefined()
  })
})

it.each([
  ['10.0.0.0/8', '10.255.0.0/16', true],
  ['10.255.0.0/16', '10.0.0.0/8', true],
  ['10.0.0.0/25', '10.0.0.128/25', false],
  ['0.0.0.0/0', '::/0', false],
  ['fd00::/64', 'fd00::/64', true],
])('overlap of %s and %s: %s', (a, b, expected) => {
  expect(address.overlaps(cidr(a), cidr(b))).toBe(expected)
})

it.each([
  ['10.0.0.0/30', '10.0.0.1/32', ['10.0.0.0/32', '10.0.0.2/31']],
  ['10.0.0.0/24', '10.0.0.0/24', []],
  ['fd00::/62', 'fd00::/64', ['fd00:0:0:1::/64', 'fd00:0:0:2::/63']],
])('%s without %s is %j', (whole, hole, expected) => {
  expect(address.subtract(cidr(whole), cidr(hole)).map(address.formatCidr)).toEqual(expected)
})

it('sorts IPv4 before IPv6, then by value', () => {
  const sorted = ['::', '10.0.0.10', 'fd00::', '10.0.0.9'].map(at).sort(address.compareAddresses)
  expect(sorted.map(address.formatAddress)).toEqual(['10.0.0.9', '10.0.0.10', '::', 'fd00::'])
})

it.each([
  ['10.1.2.3/24', '10.1.2.0/24', true],
  ['10.1.2.3/32', '10.1.2.3/32', false],
  ['FD00::1:0/112', 'fd00::1:0/112', true],
  ['fd00::1/128', 'fd00::1/128', false],
  ['default', 'default', false],
])('%s is of the network %s, which is a subnet: %s', (text, network, isSubnet) => {
  expect(address.networkText(text)).toBe(network)
  expect(address.isSubnet(text)).toBe(isSubnet)
})

it('an address is a prefix of full length, and its own text without one', () => {
  expect(['10.1.2.3', 'fd00::1', '10.0.0.0/8'].map(address.asPrefix)).toEqual([
    '10.1.2.3/32',
    'fd00::1/128',
    '10.0.0.0/8',
  ])
  expect(['10.1.2.3/24', 'fd00::1'].map(address.bareAddress)).toEqual(['10.1.2.3', 'fd00::1'])
  expect(() => address.toCidr('garbage')).toThrow(TypeError)
})

describe('a MAC', () => {
  it.each([
    ['C2:11:22:33:44:55', 'c2:11:22:33:44:55'],
    ['c2-11-22-33-44-5F', 'c2:11:22:33:44:5f'],
    ['c211.2233.4455', 'c2:11:22:33:44:55'],
    ['c2:11:22:33:44', undefined],
    ['c2:11-22:33:44:55', undefined],
    ['c2:11:22:33:44:55:66:77', undefined],
    ['c2112233.4455', undefined],
    ['c2:11:22:33:44:5', undefined],
    ['c2:11:22:33:44:55\n', undefined],
    ['', undefined],
  ])('%j is read as %s', (text, mac) => {
    expect(address.parseMac(text)).toBe(mac)
  })

  it.each([
    ['02:00:00:00:00:01', undefined],
    ['x', 'a MAC address'],
    ['01:00:5e:00:00:01', 'a unicast MAC address'],
    ['00:00:00:00:00:00', 'an address an interface can have'],
  ])('%s: what it is not is %s', (text, what) => {
    expect(address.macProblem(text)?.what).toBe(what)
  })
})
