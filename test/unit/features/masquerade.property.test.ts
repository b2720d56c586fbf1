// SPDX-License-Identifier: Apache-2.0
// Elements of interval sets: the kernel refuses overlaps, so they must be disjoint, and together they
// must be what the networks ask for, no more and no less.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Cidr,
  formatCidr,
  hostCidr,
  includes,
  networkOf,
  overlaps,
  parseAddress,
  parseCidr,
} from '../../../src-before/cni/address.ts'
import { masqueradeElements } from '../../../src-before/features/masquerade.ts'
import type { NetworkSpec } from '../../../src-before/model/attachment.ts'

/** A narrow space, so that prefixes meet: 10.0.0.0/24 and fd00::/120 with everything in them. */
const cidrs = fc
  .tuple(fc.boolean(), fc.integer({ min: 0, max: 255 }), fc.integer({ min: 0, max: 8 }))
  .map(([isV6, host, bits]) => {
    const text = isV6 ? `fd00::${host.toString(16)}/${128 - bits}` : `10.0.0.${host}/${32 - bits}`
    return formatCidr(networkOf(parseCidr(text) as Cidr))
  })
const networks: fc.Arbitrary<readonly NetworkSpec[]> = fc.array(
  fc
    .record({
      subnets: fc.array(cidrs, { minLength: 1, maxLength: 3 }),
      noMasquerade: fc.array(cidrs, { maxLength: 4 }),
    })
    .map((masquerade): NetworkSpec => ({ name: 'n', forwarding: [], removeWhenEmpty: false, masquerade })),
  { maxLength: 4 },
)
const points = fc
  .tuple(fc.boolean(), fc.integer({ min: 0, max: 255 }))
  .map(([isV6, host]) => (isV6 ? `fd00::${host.toString(16)}` : `10.0.0.${host}`))

/** An element: a prefix of one address is said as the address. */
const cidr = (text: string) => {
  const address = parseAddress(text)
  return address === undefined ? (parseCidr(text) as Cidr) : hostCidr(address)
}
const holds = (range: string, point: string) => {
  const [inside, address] = [cidr(range), parseAddress(point)]
  return address !== undefined && address.family === inside.family && includes(inside, address)
}
const pairsOf = (elements: ReturnType<typeof masqueradeElements>) =>
  elements.filter(({ set }) => set.startsWith('keep')).map(({ key }) => key as [string, string])
const sourcesOf = (elements: ReturnType<typeof masqueradeElements>) =>
  elements.filter(({ set }) => set.startsWith('masq')).map(({ key: [source = ''] }) => source)

describe('masqueradeElements', () => {
  it('gives disjoint elements in every set', () => {
    fc.assert(
      fc.property(networks, (specs) => {
        const elements = masqueradeElements(specs)
        const sources = sourcesOf(elements).map(cidr)
        for (const [at, a] of sources.entries())
          for (const b of sources.slice(at + 1)) expect(a.family === b.family && overlaps(a, b)).toBe(false)
        const pairs = pairsOf(elements)
        for (const [at, a] of pairs.entries()) {
          for (const b of pairs.slice(at + 1)) {
            const [a0, a1, b0, b1] = [cidr(a[0]), cidr(a[1]), cidr(b[0]), cidr(b[1])]
            const meet = a0.family === b0.family && overlaps(a0, b0) && overlaps(a1, b1)
            expect(meet, `${a.join(' . ')} and ${b.join(' . ')}`).toBe(false)
          }
        }
      }),
      { numRuns: 500 },
    )
  })

  it('covers exactly the sources and pairs of the networks', () => {
    fc.assert(
      fc.property(networks, points, points, (specs, from, to) => {
        const elements = masqueradeElements(specs)
        const rules = specs.flatMap(({ masquerade }) => (masquerade ? [masquerade] : []))
        const isSource = rules.some(({ subnets }) => subnets.some((subnet) => holds(subnet, from)))
        const isKept = rules.some(
          ({ subnets, noMasquerade }) =>
            subnets.some((subnet) => holds(subnet, from)) && noMasquerade.some((each) => holds(each, to)),
        )
        const sameFamily = from.includes(':') === to.includes(':')
        expect(sourcesOf(elements).some((source) => holds(source, from))).toBe(isSource)
        expect(pairsOf(elements).some(([source, kept]) => holds(source, from) && holds(kept, to))).toBe(
          isKept && sameFamily,
        )
      }),
      { numRuns: 2000 },
    )
  })

  it('gives the same elements whatever the order of networks and how often one is said', () => {
    fc.assert(
      fc.property(networks, (specs) => {
        const text = (of: readonly NetworkSpec[]) =>
          masqueradeElements(of)
            .map(({ set, key }) => `${set} ${key.join(' ')}`)
            .sort()
        expect(text([...specs, ...specs])).toEqual(text(specs))
      }),
    )
  })

  it('puts each family in its own sets', () => {
    fc.assert(
      fc.property(networks, (specs) => {
        for (const { set, key } of masqueradeElements(specs))
          for (const field of key) expect(set.endsWith('6')).toBe(field.includes(':'))
      }),
    )
  })
})
