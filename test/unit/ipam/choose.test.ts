// SPDX-License-Identifier: Apache-2.0
// The order in which addresses are tried, and requested ones. /29: .1 is the gateway, .2 to .6 can be given out.

import { describe, expect, it } from 'vitest'
import type { Range } from '../../../src/config/network-conf.ts'
import { readRangeSets } from '../../../src/config/ranges.ts'
import { candidates, capacity, chooseRequested, countedAddresses, rangeOf } from '../../../src/ipam/choose.ts'
import { errorOf } from '../call.ts'

/** A set from lines `subnet [start [end [gateway]]]`. */
function setOf(...lines: string[]): readonly Range[] {
  const inputs = lines.map((line) => {
    const [subnet, rangeStart, rangeEnd, gateway] = line.split(' ')
    return { subnet, rangeStart, rangeEnd, gateway, path: [] }
  })
  const [set] = readRangeSets([{ path: [], ranges: inputs }])
  if (set === undefined) throw new Error('no set')
  return set
}

function take(count: number, from: Iterable<{ address: string }>): string[] {
  const taken: string[] = []
  for (const { address } of from) {
    taken.push(address)
    if (taken.length === count) break
  }
  return taken
}

const all = (set: readonly Range[], last?: string, exclude: readonly string[] = []) =>
  take(-1, candidates(set, last, exclude)).join(' ')

const SMALL = setOf('192.168.1.0/29')
const TWO = setOf('192.168.1.0/30', '192.168.1.16/29')

describe('the order', () => {
  it.each([
    ['from the start without a last address', SMALL, undefined, '.2 .3 .4 .5 .6'],
    ['around after the end', SMALL, '192.168.1.6', '.2 .3 .4 .5 .6'],
    ['from the middle around to the last address itself', SMALL, '192.168.1.3', '.4 .5 .6 .2 .3'],
    ['from the start when the last address is in no range', SMALL, '192.168.1.128', '.2 .3 .4 .5 .6'],
    ['from the start when the last address is no address', SMALL, 'garbage', '.2 .3 .4 .5 .6'],
    ['the one address of a /30', setOf('192.168.1.0/30'), undefined, '.2'],
    ['nothing when the gateway is all there is', setOf('192.168.1.0/29 192.168.1.1 192.168.1.1'), undefined, ''],
    ['across ranges', TWO, undefined, '.2 .18 .19 .20 .21 .22'],
    ['on to the next range at the end of one', TWO, '192.168.1.2', '.18 .19 .20 .21 .22 .2'],
    ['back to the first range after the last one', TWO, '192.168.1.20', '.21 .22 .2 .18 .19 .20'],
  ])('%s', (_, set, last, expected) => {
    const full = expected.split(' ').map((end) => (end === '' ? '' : `192.168.1${end}`))
    expect(all(set, last)).toBe(full.join(' '))
  })

  it('leaves out the gateway of one range in another range of the set', () => {
    expect(all(setOf('10.0.0.0/24 10.0.0.2 10.0.0.3', '10.0.0.0/24 10.0.0.4 10.0.0.5 10.0.0.3'))).toBe(
      '10.0.0.2 10.0.0.4 10.0.0.5',
    )
  })

  it('crosses octets and IPv6 groups', () => {
    expect(all(setOf('10.0.0.0/22 10.0.0.254 10.0.1.1'))).toBe('10.0.0.254 10.0.0.255 10.0.1.0 10.0.1.1')
    expect(all(setOf('fd00::/64 fd00::fffe fd00::1:1'))).toBe('fd00::fffe fd00::ffff fd00::1:0 fd00::1:1')
    expect(all(setOf('fd00::/64 fd00::9:0:0:ffff fd00::9:0:1:1'))).toBe('fd00::9:0:0:ffff fd00::9:0:1:0 fd00::9:0:1:1')
    expect(all(setOf('1:0:0:2::/64 1:0:0:2:0:0:2:ffff 1:0:0:2:0:0:3:1'))).toBe(
      '1::2:0:0:2:ffff 1::2:0:0:3:0 1::2:0:0:3:1',
    )
    expect(all(setOf('1:1:1:1:1:1::/96 1:1:1:1:1:1:0:0 1:1:1:1:1:1:0:2'))).toBe('1:1:1:1:1:1:: 1:1:1:1:1:1:0:2')
  })

  it('goes to the last address of an IPv6 range, the highest of all', () => {
    const set = setOf('ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126')
    expect(all(set)).toMatch(/^ffff:[f:]+:fffe ffff:[f:]+:ffff$/)
    expect(all(setOf('255.255.255.252/30 255.255.255.254 255.255.255.255'))).toBe('255.255.255.254 255.255.255.255')
  })
})

describe('excluded addresses', () => {
  it('are left out, also when the last address is one', () => {
    expect(all(SMALL, undefined, ['192.168.1.4/32', 'fd00::/8'])).toBe(
      '192.168.1.2 192.168.1.3 192.168.1.5 192.168.1.6',
    )
    expect(all(SMALL, '192.168.1.4', ['192.168.1.4/31'])).toBe('192.168.1.6 192.168.1.2 192.168.1.3')
  })

  it('may cover everything', () => {
    expect(all(SMALL, undefined, ['192.168.0.0/16'])).toBe('')
    expect(all(setOf('fd00::/64'), 'fd00::5', ['fd00::/65', 'fd00::8000:0:0:0/65'])).toBe('')
  })

  it('are jumped over, however many they are', () => {
    const set = setOf('fd00::/64')
    expect(take(2, candidates(set, 'fd00::5', ['fd00::/65']))).toEqual(['fd00::8000:0:0:0', 'fd00::8000:0:0:1'])
  })
})

it.each([
  ['10.0.0.0/24', [], 253n],
  ['10.0.0.0/24', ['10.0.0.8/29', '10.0.0.0/28', '10.0.0.1/32'], 239n],
  ['10.0.0.0/30', ['10.0.0.0/8'], 0n],
  ['10.0.0.0/24 10.0.0.10 10.0.0.19', [], 10n],
  ['fd00::/64', [], 2n ** 64n - 2n],
])('%s without %j has room for %d', (line, exclude, expected) => {
  expect(capacity(setOf(line), exclude)).toBe(expected)
})

it.each([
  ['192.168.1.2', 0],
  ['192.168.1.17', 1],
  ['192.168.1.3', undefined],
  ['fd00::1', undefined],
  ['garbage', undefined],
])('%s is in range %s', (address, index) => {
  expect(rangeOf(TWO, address)).toEqual(index === undefined ? undefined : TWO[index])
})

it('a gateway and an excluded address take no place of a set', () => {
  const addresses = ['192.168.1.1', '192.168.1.2', '192.168.1.4', '10.0.0.1', 'fd00::1', 'garbage']
  expect(countedAddresses(SMALL, ['192.168.1.4/32'], addresses)).toEqual(['192.168.1.2'])
})

const SETS = [setOf('10.1.2.0/24 10.1.2.10 10.1.2.90 10.1.2.20', '10.1.3.0/24'), setOf('fd00::/64')]

describe('requested addresses', () => {
  it.each([
    [[], [undefined, undefined]],
    [['10.1.2.88'], ['10.1.2.88', undefined]],
    [['fd00::5'], [undefined, 'fd00::5']],
    [
      ['fd00::5', '10.1.2.10'],
      ['10.1.2.10', 'fd00::5'],
    ],
    [
      ['10.1.2.90', '10.1.2.90'],
      ['10.1.2.90', undefined],
    ],
  ])('%j go to their sets', (requested, expected) => {
    expect(chooseRequested(SETS, requested).map((one) => one?.address)).toEqual(expected)
  })

  it.each<[string[], string]>([
    [['10.1.2.20'], "failed to allocate for range 0: requested ip 10.1.2.20 is subnet's gateway"],
    [['fd00::1'], "failed to allocate for range 1: requested ip fd00::1 is subnet's gateway"],
    [['10.1.2.91'], 'failed to allocate all requested IPs: 10.1.2.91'],
    [['10.1.2.9'], 'failed to allocate all requested IPs: 10.1.2.9'],
    [['10.1.3.255'], 'failed to allocate all requested IPs: 10.1.3.255'],
    [['10.1.2.88', '10.1.3.88', '9.9.9.9'], 'failed to allocate all requested IPs: 10.1.3.88 9.9.9.9'],
  ])('%j are refused', (requested, message) => {
    expect(errorOf(() => chooseRequested(SETS, requested))).toMatchObject({ code: 102, message })
  })

  it('the details tell an address in no set from a second one in a set', () => {
    const error = errorOf(() => chooseRequested(SETS, ['10.1.2.88', '10.1.3.88', '9.9.9.9']))
    expect(error.details?.split('\n')).toEqual([
      '10.1.3.88: range set 0 gives one address to a pod, and another of it was asked for.',
      '9.9.9.9 not in range set 10.1.2.10-10.1.2.90,10.1.3.1-10.1.3.254 or fd00::1-fd00::ffff:ffff:ffff:ffff.',
    ])
  })
})
