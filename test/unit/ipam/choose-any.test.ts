// SPDX-License-Identifier: Apache-2.0
// What must hold for every pool: no address twice, none that is not the pods', all of them in the end.

import fc from 'fast-check'
import { IPv4, IPv4CidrRange, IPv6, IPv6CidrRange } from 'ip-num'
import { expect, it } from 'vitest'
import { formatCidr } from '../../../src/cni/addresses.ts'
import { readExclude, readRangeSets } from '../../../src/config/ranges.ts'
import { candidates, capacity } from '../../../src/ipam/choose.ts'

const expand = (text: string) => (text.includes(':') ? new IPv6(text) : new IPv4(text)).toString()
const numberOf = (text: string) => (text.includes(':') ? new IPv6(text) : new IPv4(text)).getValue()
const subnetOf = (text: string) => (text.includes(':') ? IPv6CidrRange.fromCidr(text) : IPv4CidrRange.fromCidr(text))

const BASES = { 4: 0x0a00_0000n, 6: 0xfd00n << 112n } as const

/** Neighbouring small subnets of one family, excluded prefixes among them, a last address near them. */
const pool = fc.constantFrom<4 | 6>(4, 6).chain((family) => {
  const bits = family === 4 ? 32 : 128
  const block = fc.integer({ min: 0, max: 15 })
  const cidr = (hostBits: number, index: number) =>
    formatCidr({ family, value: BASES[family] + BigInt(index * 64), prefixLength: bits - hostBits })
  const near = fc.nat(1023).map((offset) => ({ family, value: BASES[family] + BigInt(offset), prefixLength: bits }))
  const hole = fc.tuple(near, fc.nat(5)).map(([{ value }, hostBits]) => {
    return formatCidr({ family, value: (value >> BigInt(hostBits)) << BigInt(hostBits), prefixLength: bits - hostBits })
  })
  return fc.record({
    subnets: fc
      .uniqueArray(block, { minLength: 1, maxLength: 3 })
      .chain((indexes) => fc.tuple(...indexes.map((i) => fc.integer({ min: 2, max: 6 }).map((h) => cidr(h, i))))),
    holes: fc.array(hole, { maxLength: 4 }),
    last: fc.option(
      near.map((one) => formatCidr(one).split('/')[0]),
      { nil: undefined },
    ),
  })
})

function setOf(subnets: readonly string[]) {
  return readRangeSets([{ path: [], ranges: subnets.map((subnet) => ({ subnet, path: [] })) }])[0] ?? []
}

/** The addresses that may be given out, found one by one. */
function usableValues(subnets: readonly string[], holes: readonly string[]): Set<bigint> {
  const usable = new Set<bigint>()
  for (const subnet of subnets) {
    const first = subnetOf(subnet).getFirst().getValue()
    const last = subnetOf(subnet).getLast().getValue() - (subnet.includes(':') ? 0n : 1n)
    for (let value = first + 2n; value <= last; value++) usable.add(value)
  }
  for (const hole of holes.map(subnetOf)) {
    for (let value = hole.getFirst().getValue(); value <= hole.getLast().getValue(); value++) usable.delete(value)
  }
  return usable
}

it('tries each usable address once and nothing else: no gateway, network, broadcast or excluded one', () => {
  fc.assert(
    fc.property(pool, ({ subnets, holes, last }) => {
      const set = setOf(subnets)
      const tried = [...candidates(set, last, readExclude(holes))]
      const values = tried.map(({ address }) => numberOf(expand(address)))
      expect(new Set(values).size).toBe(values.length)
      expect(new Set(values)).toEqual(usableValues(subnets, holes))
      expect(BigInt(values.length)).toBe(capacity(set, holes))
      for (const { address, range } of tried) {
        const subnet = subnetOf(range.subnet)
        const value = numberOf(expand(address))
        expect(subnet.getFirst().getValue() < value && value <= subnet.getLast().getValue()).toBe(true)
      }
    }),
    { numRuns: 100 },
  )
})
