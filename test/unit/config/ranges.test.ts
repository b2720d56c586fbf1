// SPDX-License-Identifier: Apache-2.0
// Address pools: defaults, and what is refused with which message.

import { describe, expect, it } from 'vitest'
import { type RangeInput, readExclude, readRangeSets } from '../../../src/config/ranges.ts'
import { errorOf, lineOf } from '../call.ts'

type Input = Omit<RangeInput, 'path'>

/** The sets of `ipam.ranges`. */
const readSets = (sets: readonly (readonly Input[])[]) =>
  readRangeSets(
    sets.map((ranges, set) => ({
      path: ['ipam', 'ranges', set],
      ranges: ranges.map((range, at) => ({ ...range, path: ['ipam', 'ranges', set, at] })),
    })),
  )
const readOne = (input: Input) => readSets([[input]])[0]?.[0]
const spanOf = (text: string): Input => {
  const [subnet, rangeStart, rangeEnd] = text.split(' ')
  return { subnet, rangeStart, rangeEnd }
}

describe('a range', () => {
  it.each([
    ['192.0.2.0/24', '192.0.2.1', '192.0.2.254', '192.0.2.1'],
    ['192.0.2.0/30', '192.0.2.1', '192.0.2.2', '192.0.2.1'],
    ['2001:DB8:1::/64', '2001:db8:1::1', '2001:db8:1:0:ffff:ffff:ffff:ffff', '2001:db8:1::1'],
    ['fd00::/126', 'fd00::1', 'fd00::3', 'fd00::1'],
  ])('%s goes from %s to %s, gateway %s', (subnet, rangeStart, rangeEnd, gateway) => {
    expect(readOne({ subnet })).toEqual({ subnet: subnet.toLowerCase(), rangeStart, rangeEnd, gateway })
  })

  it('keeps what is given, in canonical text', () => {
    const given = {
      subnet: '::ffff:192.0.2.0/120',
      rangeStart: '192.0.2.40',
      rangeEnd: '192.0.2.50',
      gateway: '192.0.2.254',
    }
    expect(readOne(given)).toEqual({ ...given, subnet: '192.0.2.0/24' })
  })

  it('takes the network and broadcast addresses as ends when they are given', () => {
    const given = { subnet: '192.0.2.0/29', rangeStart: '192.0.2.0', rangeEnd: '192.0.2.7' }
    expect(readOne(given)).toEqual({ ...given, gateway: '192.0.2.1' })
  })

  it('takes a gateway outside of the subnet', () => {
    expect(readOne({ subnet: '192.0.2.0/24', gateway: '198.51.100.1' })?.gateway).toBe('198.51.100.1')
  })

  it.each<[Input, string]>([
    [{}, 'subnet: IP <nil> not v4 nor v6: the subnet is missing'],
    [{ subnet: '192.0.2.0' }, 'subnet: invalid CIDR address: 192.0.2.0'],
    [{ subnet: '192.0.2.0/31' }, 'subnet: Network 192.0.2.0/31 too small to allocate from'],
    [{ subnet: 'fd00::/127' }, 'subnet: Network fd00::/127 too small to allocate from'],
    [{ subnet: '192.0.2.12/24' }, hostBits(24, '192.0.2.0')],
    [{ subnet: '2001:db8:1::5/64' }, hostBits(64, '2001:db8:1::')],
    [
      { subnet: '192.0.2.0/24', rangeStart: '192.0.3.0' },
      'rangeStart: RangeStart 192.0.3.0 not in network 192.0.2.0/24',
    ],
    [{ subnet: '192.0.2.0/24', rangeStart: 'fd00::1' }, 'rangeStart: RangeStart fd00::1 not in network 192.0.2.0/24'],
    [{ subnet: '192.0.2.0/24', rangeEnd: '192.0.4.0' }, 'rangeEnd: RangeEnd 192.0.4.0 not in network 192.0.2.0/24'],
    [spanOf('192.0.2.0/24 192.0.2.50 192.0.2.40'), 'rangeStart: RangeStart 192.0.2.50 not in network 192.0.2.0/24'],
    [{ subnet: '192.0.2.0/24', rangeStart: '192.0.2.1/24' }, 'rangeStart: invalid IP address: 192.0.2.1/24'],
    [{ subnet: '192.0.2.0/24', gateway: '192.0.2.01' }, 'gateway: invalid IP address: 192.0.2.01'],
    [
      { subnet: '192.0.2.0/24', gateway: 'fd00::1' },
      'gateway: gateway fd00::1 is not of the same family as 192.0.2.0/24',
    ],
    [
      { subnet: '192.0.2.0/24', gateway: '192.0.2.0' },
      'gateway: gateway 192.0.2.0 is the network address of 192.0.2.0/24',
    ],
    [
      { subnet: '192.0.2.0/24', gateway: '192.0.2.255' },
      'gateway: gateway 192.0.2.255 is the broadcast address of 192.0.2.0/24',
    ],
  ])('%j is refused', (input, message) => {
    const [key, ...reason] = message.split(': ')
    const expected = `ipam.ranges[0][0].${key}: invalid range set 0: ${reason.join(': ')}`
    expect(lineOf(errorOf(() => readOne(input)))).toBe(`(7) ${expected}`)
  })
})

function hostBits(length: number, network: string): string {
  return `subnet: Network has host bits set. For a subnet mask of length ${length} the network address is ${network}`
}

describe('range sets', () => {
  const readSpans = (sets: readonly (readonly string[])[]) => readSets(sets.map((set) => set.map(spanOf)))

  it.each<[string, string[][], string]>([
    ['no set', [], 'ipam: no IP ranges specified'],
    ['an empty set', [['10.0.0.0/24'], []], 'ipam.ranges[1]: invalid range set 1: empty range set'],
    [
      'two families in a set',
      [['10.0.0.0/24', 'fd00::/64']],
      'ipam.ranges[0]: invalid range set 0: mixed address families',
    ],
    [
      'ranges that share an end',
      [['10.0.0.0/24 10.0.0.1 10.0.0.9', '10.0.0.0/24 10.0.0.9 10.0.0.20']],
      'ipam.ranges[0]: invalid range set 0: subnets 10.0.0.1-10.0.0.9 and 10.0.0.9-10.0.0.20 overlap',
    ],
    [
      'the same subnet in two sets',
      [['10.0.0.0/24'], ['fd00::/64'], ['10.1.0.0/16', '10.0.0.0/16']],
      'ipam.ranges[2]: range set 0 overlaps with 2',
    ],
  ])('%s is refused', (_, sets, message) => {
    expect(lineOf(errorOf(() => readSpans(sets)))).toBe(`(7) ${message}`)
  })

  it.each<[string, string[][]]>([
    ['a subnet split between sets', [['10.0.0.0/24 10.0.0.1 10.0.0.99'], ['10.0.0.0/24 10.0.0.100 10.0.0.200']]],
    ['neighbours in one set', [['10.0.0.0/25', '10.0.0.128/25']]],
    ['one set for each family', [['10.0.0.0/24'], ['fd00::/64']]],
  ])('%s is taken', (_, sets) => {
    expect(readSpans(sets)).toHaveLength(sets.length)
  })

  it('names each set by its own key when the sets come from several places', () => {
    const inputs = [
      { path: ['runtimeConfig', 'ipRanges', 0], ranges: [{ subnet: '10.0.0.0/24', path: ['runtimeConfig'] }] },
      { path: ['ipam'], ranges: [{ subnet: '10.1.0.0/31', path: ['ipam'] }] },
    ]
    expect(lineOf(errorOf(() => readRangeSets(inputs)))).toContain('(7) ipam.subnet: invalid range set 1: ')
  })

  it('has at most 64 ranges in all sets together', () => {
    const subnet = (at: number) => ({ subnet: `10.${at >> 8}.${at & 255}.0/24` })
    const sets = (count: number) => Array.from({ length: count }, (_, at) => [subnet(2 * at), subnet(2 * at + 1)])
    expect(readSets(sets(32))).toHaveLength(32)
    expect(lineOf(errorOf(() => readSets(sets(33))))).toBe('(7) ipam.ranges[0]: 66 IP ranges')
  })
})

describe('excluded addresses', () => {
  it('become canonical CIDRs without repeats', () => {
    const entries = ['10.0.0.0/8', '10.0.0.5', 'FD00::/64', '10.0.0.5/32', 'fd00::1']
    expect(readExclude(entries)).toEqual(['10.0.0.0/8', '10.0.0.5/32', 'fd00::/64', 'fd00::1/128'])
  })

  it.each([
    ['10.0.0.0/33', 'invalid CIDR address: 10.0.0.0/33'],
    ['10.0.0.1-10.0.0.9', 'invalid CIDR address: 10.0.0.1-10.0.0.9'],
    ['10.1.2.3/24', '10.1.2.3/24 has host bits set'],
  ])('%s is refused', (entry, message) => {
    expect(lineOf(errorOf(() => readExclude(['10.0.0.5', entry])))).toBe(`(7) ipam.exclude[1]: ${message}`)
  })
})
