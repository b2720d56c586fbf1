// SPDX-License-Identifier: Apache-2.0
// Which bridge a node's pods get when its Node comes back with other ranges: the one that has today's gateways with
// today's prefixes, a new one only where no bridge in use has to do with today's ranges.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chooseBridge, isAsToday, type NodeBridge, sharedRanges } from '../../../../src-before/plan/agent/new-pods.ts'

const [a4, a6] = ['10.0.1.1/24', 'fd00:1::1/64']
const [b4, b6] = ['10.0.9.1/24', 'fd00:9::1/64']
const [a, b] = [
  ['10.0.1.0/24', 'fd00:1::/64'],
  ['10.0.9.0/24', 'fd00:9::/64'],
]
const used = (name: string, ...addresses: string[]): NodeBridge => ({ name, addresses, isInUse: true })
const empty = (name: string, ...addresses: string[]): NodeBridge => ({ name, addresses, isInUse: false })
const choose = (podCidrs: readonly string[], setUp: string | undefined, ...bridges: NodeBridge[]) => {
  const { name, inTheWay } = chooseBridge({ podCidrs, setUp, bridges })
  return inTheWay.length === 0 ? name : `${name} refused by ${inTheWay.map((each) => each.name).join()}`
}

describe('chooseBridge', () => {
  it('is the usual one, until pods of an earlier range are plugged into it', () => {
    expect(choose(a, undefined)).toBe('cni0')
    expect(choose(a, 'cni0', used('cni0', a4, a6))).toBe('cni0')
    expect(choose(b, 'cni0', empty('cni0', a4, a6))).toBe('cni0')
    expect(choose(b, 'cni0', used('cni0', a4, a6))).toBe('cni1')
    expect(choose(b, 'cni1', used('cni0', a4, a6), used('cni1', b4, b6))).toBe('cni1')
    expect(choose(['10.0.8.0/24'], 'cni1', used('cni0', a4), used('cni1', b4))).toBe('cni2')
    expect(choose(['10.0.8.0/24'], 'cni1', used('cni1', b4))).toBe('cni0')
  })

  it('is the same one for a part of its ranges, one more family, and the families the other way round', () => {
    expect(choose(['10.0.1.0/24'], 'cni0', used('cni0', a4, a6))).toBe('cni0')
    expect(choose(['fd00:1::/64'], 'cni0', used('cni0', a4, a6))).toBe('cni0')
    expect(choose(a, 'cni0', used('cni0', a4))).toBe('cni0')
    expect(choose([...a].reverse(), 'cni0', used('cni0', a4, a6))).toBe('cni0')
    expect(choose(['10.0.1.0/24', 'fd00:9::/64'], 'cni0', used('cni0', a4, a6))).toBe('cni0')
  })

  it('is the earlier one for an earlier range', () => {
    expect(choose(a, 'cni1', used('cni0', a4, a6), used('cni1', b4, b6))).toBe('cni0')
    expect(choose(a, 'cni1', used('cni0', a4, a6), empty('cni1', b4, b6))).toBe('cni0')
    expect(choose(a, 'cni1', empty('cni0', a4, a6), used('cni1', b4, b6))).toBe('cni0')
  })

  it('cannot be had for another mask, one family of two, and one range of each of two bridges', () => {
    expect(choose(['10.0.1.0/25'], 'cni0', used('cni0', a4))).toBe('cni0 refused by cni0')
    expect(choose(['10.0.0.0/23'], 'cni0', used('cni0', a4))).toBe('cni0 refused by cni0')
    expect(choose(['fd00:1::/63'], 'cni0', used('cni0', a6))).toBe('cni0 refused by cni0')
    expect(choose(['10.0.9.0/24', 'fd00:1::/64'], 'cni0', used('cni0', a4, a6))).toBe('cni0 refused by cni0')
    const both = [used('cni0', a4, a6), used('cni1', b4, b6)]
    expect(choose(['10.0.1.0/24', 'fd00:9::/64'], 'cni1', ...both)).toBe('cni0 refused by cni0,cni1')
    // The kernel's route leads to the first.
    expect(choose(a, 'cni1', used('cni0', a4, a6), used('cni1', a4, a6))).toBe('cni0 refused by cni0,cni1')
  })

  it('never gives a range to two bridges in use, and never refuses ranges that none has', () => {
    const octet = fc.integer({ min: 0, max: 3 })
    const cidr = fc.oneof(
      fc
        .tuple(octet, fc.constantFrom(23, 24, 25))
        .map(([n, bits]) => [`10.0.${bits === 23 ? n & 2 : n}.0`, bits] as const),
      fc
        .tuple(octet, fc.constantFrom(63, 64))
        .map(([n, bits]) => [`fd00:0:0:${bits === 63 ? n & 2 : n}::`, bits] as const),
    )
    const gateway = ([base, bits]: readonly [string, number]) =>
      `${base.replace(/0$|::$/, (end) => `${end === '0' ? '' : end}1`)}/${bits}`
    const bridge = fc.record({ addresses: fc.array(cidr.map(gateway), { maxLength: 2 }), isInUse: fc.boolean() })
    fc.assert(
      fc.property(
        fc.array(bridge, { maxLength: 3 }),
        fc.array(cidr, { minLength: 1, maxLength: 2 }),
        (parts, ranges) => {
          const bridges = parts.map((part, at) => ({ name: `cni${at}`, ...part }))
          const podCidrs = ranges.map(([base, bits]) => `${base}/${bits}`)
          const { name, inTheWay } = chooseBridge({ podCidrs, setUp: 'cni0', bridges })
          const others = bridges.filter((each) => each.isInUse && each.name !== name)
          const touches = (each: NodeBridge) => each.addresses.some((one) => ranges.some((range) => meets(one, range)))
          if (inTheWay.length === 0) expect(others.some(touches)).toBe(false)
          if (!bridges.some((each) => each.isInUse && touches(each))) expect(inTheWay).toEqual([])
        },
      ),
    )
  })
})

describe('what is known of bridges', () => {
  it('is settled where the network has today’s gateways, in any order', () => {
    expect(isAsToday([a4, a6], [...a].reverse())).toBe(true)
    expect(isAsToday([a4, a6], ['10.0.1.0/24'])).toBe(false)
    expect(isAsToday([a4], ['10.0.1.0/25'])).toBe(false)
  })

  it('names two bridges with one range, and what to do', () => {
    expect(sharedRanges([used('cni0', a4, a6), used('cni1', a4, b6)])).toEqual([
      'cni0 and cni1 both have 10.0.1.1/24: pods on one of them are not reached; drain the node',
    ])
    expect(sharedRanges([used('cni0', a4, a6), empty('cni1', a4, b6)])).toEqual([])
  })
})

/** Whether an address is in a range or the other way round, without the code under test: by the third or fourth group. */
function meets(address: string, [base, bits]: readonly [string, number]): boolean {
  const parts = (text: string) => {
    const [host = '', length = ''] = text.split('/')
    const isSix = host.includes(':')
    const at = isSix ? Number(host.split(':')[3] ?? 0) * 256 : Number(host.split('.')[2]) * 256
    const first = isSix ? at : Math.floor(at / 2 ** (32 - Number(length))) * 2 ** (32 - Number(length))
    const size = isSix ? (length === '63' ? 512 : 256) : 2 ** (32 - Number(length))
    return { isSix, first, end: first + size }
  }
  const [one, other] = [parts(address), parts(`${base}/${bits}`)]
  return one.isSix === other.isSix && one.first < other.end && other.first < one.end
}
