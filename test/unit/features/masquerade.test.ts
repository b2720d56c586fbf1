// SPDX-License-Identifier: Apache-2.0
// Elements of interval sets: the kernel refuses overlaps, so they must be disjoint, and together they must be what the
// networks ask for, no more and no less. And which links and pods are masqueraded towards themselves.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatCidr, includes, networkOf, overlaps, toCidr } from '../../../src/cni/addresses.ts'
import type { NetworkSpec } from '../../../src/drivers/spec.ts'
import { masquerade, masqueradeElements } from '../../../src/features/masquerade.ts'
import { networkElements } from '../../../src/features/network-elements.ts'
import { type Json, specOf } from '../call.ts'

const plain: NetworkSpec = {
  ...{ name: 'n', role: 'main', mode: 'ptp', ranges: [], isLearned: false, gateways: [], vlan: 0 },
  ...{ forwarding: [], allowOverlap: false, hairpin: [], removeWhenEmpty: false },
}

/** A narrow space, so that prefixes meet: 10.0.0.0/24 and fd00::/120 with everything in them. */
const cidrs = fc
  .tuple(fc.boolean(), fc.integer({ min: 0, max: 255 }), fc.integer({ min: 0, max: 8 }))
  .map(([isV6, host, bits]) => {
    const text = isV6 ? `fd00::${host.toString(16)}/${128 - bits}` : `10.0.0.${host}/${32 - bits}`
    return formatCidr(networkOf(toCidr(text)))
  })
const networks: fc.Arbitrary<readonly NetworkSpec[]> = fc.array(
  fc
    .record({
      sources: fc.array(cidrs, { minLength: 1, maxLength: 3 }),
      keep: fc.array(cidrs, { maxLength: 4 }),
    })
    .map((masquerade): NetworkSpec => ({ ...plain, masquerade })),
  { maxLength: 4 },
)
const points = fc
  .tuple(fc.boolean(), fc.integer({ min: 0, max: 255 }))
  .map(([isV6, host]) => (isV6 ? `fd00::${host.toString(16)}` : `10.0.0.${host}`))

const cidr = toCidr
const holds = (range: string, point: string) => {
  return includes(cidr(range), cidr(point))
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
        const isSource = rules.some(({ sources }) => sources.some((subnet) => holds(subnet, from)))
        const isKept = rules.some(
          ({ sources, keep }) => sources.some((subnet) => holds(subnet, from)) && keep.some((each) => holds(each, to)),
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
})

const podcidr = ['10.1.0.0/24', 'fd00:1::/64']
const ranges = { ipam: { type: 'host-local', ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00:1::/64' }]] } }
const ports = { runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 80 }] } }

describe('what is routed back to its own link', () => {
  it.each<[string, Json, readonly string[]]>([
    ['the bridge of a network that masquerades', { podcidr }, ['cni0 cni0']],
    ['the bridge of a network with host ports', { ...ranges, ...ports }, ['cni0 cni0']],
    ['the gateway of a VLAN, where the bridge routes nothing', { podcidr, vlan: 7 }, ['cni0.7 cni0.7']],
    ['no link of routed pods', { podcidr, mode: 'ptp' }, []],
    ['none with snat off', { podcidr, portmap: { snat: false } }, []],
  ])('is %s', (_, conf, links) => {
    const { network } = specOf(conf)
    const elements = networkElements(network === undefined ? [] : [network])
    expect(elements.filter(({ set }) => set === 'hairpinlink').map(({ key }) => key.join(' '))).toEqual(links)
    expect(elements.some(({ set }) => set === 'hairpin4')).toBe(links.length > 0)
  })
})

describe('a pod that reaches itself', () => {
  const self = ['10.1.0.2', 'fd00:1::2']
  it.each<[string, Json, readonly string[]]>([
    ['has host ports', { podcidr, ...ports }, self],
    ['is routed', { podcidr, mode: 'ptp' }, self],
    ['is isolated on its bridge', { podcidr, ipMasq: false, firewall: { ingressPolicy: 'isolated' } }, self],
    ['is not one without host ports: kube-proxy masquerades what it translates', { podcidr }, []],
    ['is not one with snat off', { podcidr, ...ports, portmap: { snat: false } }, []],
  ])('%s', (_, conf, addresses) => {
    expect((masquerade.elements?.(specOf(conf)) ?? []).map(({ key }) => key)).toEqual(addresses.map((ip) => [ip, ip]))
  })
})
