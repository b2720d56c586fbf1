// SPDX-License-Identifier: Apache-2.0
// Requested addresses, and the errors for those that cannot be had.

import { describe, expect, it } from 'vitest'
import { CniError } from '../../../../src-before/cni/error.ts'
import { CniCode } from '../../../../src-before/cni/error-code.ts'
import { readRangeSets } from '../../../../src-before/config/ranges.ts'
import { chooseRequested, exhausted, requestTaken } from '../../../../src-before/plan/ipam/allocate.ts'

const SETS = readRangeSets(
  [
    [
      { subnet: '10.1.2.0/24', rangeStart: '10.1.2.10', rangeEnd: '10.1.2.90', gateway: '10.1.2.20' },
      { subnet: '10.1.3.0/24' },
    ],
    [{ subnet: 'fd00::/64' }],
  ],
  ['ranges'],
)
const FIRST = { index: 0, ranges: SETS[0] ?? [] }

function failureOf(requested: readonly string[]): CniError {
  try {
    chooseRequested(SETS, requested)
  } catch (error) {
    if (error instanceof CniError) return error
    throw error
  }
  throw new Error('no error')
}

describe('requested addresses', () => {
  it.each([
    [[], [undefined, undefined]],
    [['10.1.2.88'], ['10.1.2.88', undefined]],
    [['10.1.3.254/16'], ['10.1.3.254', undefined]],
    [['FD00::0005'], [undefined, 'fd00::5']],
    [
      ['fd00::5', '10.1.2.10'],
      ['10.1.2.10', 'fd00::5'],
    ],
    [
      ['10.1.2.90', '::ffff:10.1.2.90'],
      ['10.1.2.90', undefined],
    ],
  ])('%j go to their sets', (requested, expected) => {
    expect(chooseRequested(SETS, requested).map((one) => one?.address)).toEqual(expected)
  })

  it('come with the range they are in', () => {
    expect(chooseRequested(SETS, ['10.1.3.5'])[0]?.range).toEqual(SETS[0]?.[1])
  })

  it.each<[string[], number, string]>([
    [
      ['10.1.2.20'],
      CniCode.addressUnavailable,
      "failed to allocate for range 0: requested ip 10.1.2.20 is subnet's gateway",
    ],
    [
      ['fd00::1'],
      CniCode.addressUnavailable,
      "failed to allocate for range 1: requested ip fd00::1 is subnet's gateway",
    ],
    [['10.1.2.91'], CniCode.addressUnavailable, 'failed to allocate all requested IPs: 10.1.2.91'],
    [['10.1.2.9'], CniCode.addressUnavailable, 'failed to allocate all requested IPs: 10.1.2.9'],
    [['10.1.3.255'], CniCode.addressUnavailable, 'failed to allocate all requested IPs: 10.1.3.255'],
    [
      ['10.1.2.88', '10.1.3.88', '9.9.9.9'],
      CniCode.addressUnavailable,
      'failed to allocate all requested IPs: 10.1.3.88 9.9.9.9',
    ],
    [['10.1.2'], CniCode.invalidConfig, 'requested address: invalid IP address 10.1.2'],
  ])('%j are refused', (requested, code, message) => {
    const error = failureOf(requested)
    expect([error.code, error.message]).toEqual([code, message])
  })

  it('the details tell an address in no set from a second one in a set', () => {
    expect(failureOf(['10.1.2.88', '10.1.3.88', '9.9.9.9']).details?.split('\n')).toEqual([
      '10.1.3.88: range set 0 gives one address to a pod, and another of it was asked for.',
      '9.9.9.9 not in range set 10.1.2.10-10.1.2.90,10.1.3.1-10.1.3.254 or fd00::1-fd00::ffff:ffff:ffff:ffff.',
    ])
  })
})

it('a taken address names its holder', () => {
  const error = requestTaken(FIRST, '10.1.2.88', 'default/web-0')
  expect([error.code, error.message, error.details]).toEqual([
    CniCode.addressUnavailable,
    'failed to allocate for range 0: requested IP address 10.1.2.88 is not available in range set ' +
      '10.1.2.10-10.1.2.90,10.1.3.1-10.1.3.254',
    'It is held by default/web-0.',
  ])
})

it('a full set says which it is, how full, and what to do', () => {
  const theirs = { count: 0, directory: '/var/lib/cni/networks/pods' }
  const directory = '/run/trestle/networks/pods/addresses'
  const error = exhausted(FIRST, { directory, used: 206, cooling: [], exclude: ['10.1.3.128/25'], theirs })
  expect([error.code, error.message]).toEqual([
    CniCode.poolExhausted,
    'failed to allocate for range 0: no IP addresses available in range set: ' +
      '10.1.2.10-10.1.2.90,10.1.3.1-10.1.3.254 (206 of 206 used)',
  ])
  expect(error.details).toContain('/run/trestle/networks/pods/addresses says who has each address; `trestle gc`')
  expect(error.details).not.toContain('host-local')
  expect(error.details).not.toContain('cool down')
  const cooling = exhausted(FIRST, { directory, used: 206, cooling: [40.2, 7.1], exclude: [], theirs })
  expect(cooling.details).toContain('2 cool down (ipam.cooldown), the first for 8 s more. ')
  const left = exhausted(FIRST, { directory, used: 206, cooling: [], exclude: [], theirs: { ...theirs, count: 3 } })
  expect(left.details).toContain(
    '3 were reserved by host-local, in /var/lib/cni/networks/pods; `trestle adopt --apply`',
  )
})
