// SPDX-License-Identifier: Apache-2.0
// Which ranges lead to which node, whatever the API server says, and the same whatever the order.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { clusterNode } from '../../../../src/plan/agent/cluster-node.ts'
import { clusterView } from '../../../../src/plan/agent/cluster-view.ts'
import { changedProblems } from '../../../../src/plan/agent/problem.ts'

const node = (name: string, podCidrs: readonly string[], addresses: readonly string[], created = '2026') => {
  return { name, uid: name, created, podCidrs, addresses }
}
const self = node('self', ['10.0.1.0/24', 'fd00:1::/64'], ['192.0.2.1'])
const view = (nodes: readonly ReturnType<typeof node>[], more = {}) =>
  clusterView({ self: 'self', nodes, remembered: [], earlierPods: [], ...more })
const idsOf = ({ problems }: ReturnType<typeof view>) => problems.map(({ id, node: name }) => `${name} ${id}`)

describe('clusterNode', () => {
  it('keeps what is used of a Node, and nothing of what is none', () => {
    const object = {
      metadata: { name: 'a', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z', managedFields: [{}] },
      spec: { podCIDR: '10.0.0.0/24', podCIDRs: ['10.0.0.0/24', 'fd00::/64'] },
      status: {
        addresses: [
          { type: 'Hostname', address: 'a' },
          { type: 'InternalIP', address: '192.0.2.1' },
        ],
        conditions: [{ type: 'NetworkUnavailable', status: 'True' }],
        images: [{ names: ['x'] }],
      },
    }
    expect(clusterNode(object)).toEqual({
      name: 'a',
      uid: 'u',
      created: '2026-01-01T00:00:00Z',
      podCidrs: ['10.0.0.0/24', 'fd00::/64'],
      addresses: ['192.0.2.1'],
      networkUnavailable: 'True',
    })
    expect(clusterNode({ metadata: { name: 'a' }, spec: { podCIDR: '10.0.0.0/24' } })?.podCidrs).toEqual([
      '10.0.0.0/24',
    ])
    for (const none of [undefined, null, 1, 'a', [], {}, { metadata: { name: 5 } }])
      expect(clusterNode(none)).toBeUndefined()
  })

  it('takes any shape inside for absent', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (spec, status) => {
        const found = clusterNode({ metadata: { name: 'a' }, spec, status })
        expect(found?.podCidrs.every((text) => typeof text === 'string')).toBe(true)
        view([
          self,
          {
            ...found,
            name: 'a',
            podCidrs: found?.podCidrs ?? [],
            addresses: found?.addresses ?? [],
            uid: '',
            created: '',
          },
        ])
      }),
    )
  })
})

describe('clusterView', () => {
  it('keeps the order of families of the own node', () => {
    const six = node('self', ['fd00:1::/64', '10.0.1.0/24'], ['192.0.2.1'])
    expect(view([six]).own).toEqual(['fd00:1::/64', '10.0.1.0/24'])
  })

  it('leaves out what is malformed, special, or has the address of a node in it', () => {
    const bad = [
      '10.0.2.0/33',
      '10.0.2.1/24',
      '',
      'x',
      '0.0.0.0/0',
      '127.0.0.0/16',
      '224.1.0.0/16',
      'fe80::/64',
      '192.0.2.0/24',
    ]
    for (const cidr of bad) {
      const seen = view([self, node('b', [cidr, 'fd00:2::/64'], ['192.0.2.2'])])
      expect(idsOf(seen)).toEqual(['b BadPodCIDR'])
      expect(seen.peers).toEqual([{ name: 'b', ranges: ['fd00:2::/64'], addresses: ['192.0.2.2'] }])
    }
  })

  it('is not taken a range by a node that came later with an address in it', () => {
    const elder = node('b', ['10.0.2.0/24'], ['192.0.2.2'], '2025')
    const stray = node('c', ['10.0.3.0/24'], ['10.0.2.1', '10.0.1.1'], '2027')
    const seen = view([stray, elder, self])
    expect(seen.own).toEqual(self.podCidrs)
    expect(seen.peers.map(({ ranges }) => ranges)).toEqual([['10.0.2.0/24'], ['10.0.3.0/24']])
    expect(idsOf(seen)).toEqual([])
    const younger = node('d', ['192.0.2.0/25'], ['198.51.100.4'], '2028')
    expect(idsOf(view([self, younger]))).toEqual(['d BadPodCIDR'])
    const eldest = node('a', ['192.0.2.0/25'], ['198.51.100.4'], '2001')
    expect(idsOf(view([self, eldest]))).toEqual(['a BadPodCIDR'])
  })

  it('says of its own ranges which the plugin could give no addresses from', () => {
    const odd = node('self', ['10.0.1.0/24', '10.0.2.0/24', '10.0.3.0/31', 'fd00::2/127', 'fd00:1::/64'], [])
    const seen = view([odd])
    expect(seen.own).toEqual(['10.0.1.0/24', 'fd00:1::/64'])
    expect(seen.problems.map(({ text }) => text)).toEqual([
      'podCIDR 10.0.2.0/24 is a second range of IPv4',
      'podCIDR 10.0.3.0/31 has no room for pods',
      'podCIDR fd00::2/127 has no room for pods',
    ])
  })

  it('has the same view of an address and a range that are written as IPv4 in IPv6', () => {
    const mapped = node('b', ['::ffff:10.0.2.0/120'], ['::ffff:192.0.2.2'])
    expect(view([self, mapped]).peers).toEqual([{ name: 'b', ranges: ['10.0.2.0/24'], addresses: ['192.0.2.2'] }])
  })

  it('gives a range that two nodes have to the elder, and never one of ours to another', () => {
    const [elder, younger] = [node('z', ['10.0.2.0/24'], [], '2025'), node('b', ['10.0.2.0/25'], [], '2026')]
    const thief = node('a', ['10.0.0.0/16'], [], '2020')
    const seen = view([younger, thief, elder, self])
    expect(seen.own).toEqual(self.podCidrs)
    expect(seen.peers.filter(({ ranges }) => ranges.length > 0)).toMatchObject([{ name: 'z' }])
    expect(idsOf(seen).sort()).toEqual(['a OverlappingPodCIDR', 'b OverlappingPodCIDR'])
  })

  it('is the same in whatever order the nodes come, and no two of its ranges overlap', () => {
    const range = fc
      .tuple(fc.integer({ min: 0, max: 7 }), fc.constantFrom(22, 24, 25))
      .map(([n, bits]) => `10.0.${n}.0/${bits}`)
    const some = fc.uniqueArray(
      fc.record({ name: fc.constantFrom('self', 'a', 'b', 'c', 'd'), cidrs: fc.array(range, { maxLength: 2 }) }),
      { selector: ({ name }) => name },
    )
    fc.assert(
      fc.property(some, fc.integer(), (parts, seed) => {
        const nodes = parts.map(({ name, cidrs }) => node(name, cidrs, []))
        const other = [...nodes].sort(
          (a, b) => ((a.name.charCodeAt(0) * seed) % 7) - ((b.name.charCodeAt(0) * seed) % 7),
        )
        expect(view(other)).toEqual(view(nodes))
        const { own, peers } = view(nodes)
        const all = [...own, ...peers.flatMap(({ ranges }) => ranges)].map(bounds).sort((a, b) => a[0] - b[0])
        for (const [at, [first]] of all.entries()) if (at > 0) expect(first).toBeGreaterThan(all[at - 1]?.[1] ?? 0)
      }),
    )
  })

  it('keeps the earlier range of a node with the same address, until somebody has it', () => {
    const remembered = [{ name: 'b', ranges: ['10.0.2.0/24'], addresses: ['192.0.2.2'] }]
    const again = node('b', ['10.0.9.0/24'], ['192.0.2.2'])
    expect(view([self, again], { remembered }).peers[0]?.ranges).toEqual(['10.0.9.0/24', '10.0.2.0/24'])
    const moved = node('b', ['10.0.9.0/24'], ['192.0.2.7'])
    expect(view([self, moved], { remembered }).peers[0]?.ranges).toEqual(['10.0.9.0/24'])
    const taken = view([self, again, node('c', ['10.0.2.0/24'], [])], { remembered })
    expect(taken.peers).toMatchObject([{ ranges: ['10.0.9.0/24'] }, { ranges: ['10.0.2.0/24'] }])
    expect(view([self], { remembered }).peers).toEqual([])
  })

  it('says drain where pods here have addresses of an earlier range', () => {
    const seen = view([self], { earlierPods: ['10.0.7.0/24'] })
    expect(seen.pods).toEqual([...self.podCidrs, '10.0.7.0/24'])
    expect(seen.problems).toMatchObject([{ id: 'MovedPodCIDR', text: expect.stringContaining('drain') }])
  })
})

describe('changedProblems', () => {
  it('tells what has begun and what is over, and nothing of what goes on', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ id: 'NoPodCIDR' as const, node: name, text: 'x' }))
    expect(changedProblems([a, b] as never, [b, c] as never)).toEqual({ begun: [c], over: [a] })
  })
})

/** First and last address of an IPv4 range that ends within 10.0.0.0/16, without the code under test. */
function bounds(text: string): readonly [number, number] {
  const [, third = '', bits = ''] = /^10\.0\.(\d+)\.0\/(\d+)$/.exec(text) ?? []
  const size = 2 ** (32 - Number(bits))
  const first = Math.floor((Number(third) * 256) / size) * size
  return [first, first + size - 1]
}
