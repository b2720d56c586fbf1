// SPDX-License-Identifier: Apache-2.0
// Which ranges lead to which node, whatever the API server says, and the same whatever the order.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Cidr, parseAddress, parseCidr } from '../../../../src-before/cni/address.ts'
import { clusterNode } from '../../../../src-before/plan/agent/cluster-node.ts'
import { clusterView } from '../../../../src-before/plan/agent/cluster-view.ts'
import { changedProblems } from '../../../../src-before/plan/agent/problem.ts'

const node = (name: string, podCidrs: readonly string[], addresses: readonly string[], created = '2026') => {
  return { name, uid: name, created, podCidrs, addresses }
}
const self = node('self', ['10.0.1.0/24', 'fd00:1::/64'], ['192.0.2.1'])
const subnet = (dst: string, isOfLink = true) => ({ dst, dev: 'eth0', isOfLink })
const here = { addresses: ['192.0.2.1', '2001:db8::1'], subnets: [subnet('192.0.2.0/24'), subnet('2001:db8::/64')] }
const view = (nodes: readonly ReturnType<typeof node>[], more = {}) =>
  clusterView({ self: 'self', nodes, remembered: [], earlierPods: [], here, bounds: [], allowOverlap: false, ...more })
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
      '::a00:0/104',
      '::/64',
    ]
    for (const cidr of bad) {
      const seen = view([self, node('b', [cidr, 'fd00:2::/64'], ['192.0.2.2'])])
      expect(idsOf(seen)).toEqual(['b BadPodCIDR'])
      expect(seen.peers).toEqual([{ name: 'b', ranges: ['fd00:2::/64'], addresses: ['192.0.2.2'] }])
    }
  })

  it('routes no range with the API server in it, and has none of its own', () => {
    for (const [server, range, other] of [
      ['10.99.0.10', '10.99.0.0/16', 'fd00:2::/64'],
      ['fd00:99::10', 'fd00:99::/64', '10.0.2.0/24'],
    ] as const) {
      const more = { apiServer: parseAddress(server) }
      const seen = view([self, node('b', [range, other], ['192.0.2.2'])], more)
      expect(seen.problems).toMatchObject([
        { id: 'BadPodCIDR', node: 'b', text: expect.stringContaining('API server') },
      ])
      expect(seen.peers[0]?.ranges).toEqual([other])
      const own = view([node('self', [range, other], ['192.0.2.1'])], more)
      expect(idsOf(own)).toEqual(['self BadPodCIDR'])
      expect(own.own).toEqual([other])
    }
  })

  it('is not taken a range by a node that came later with an address in it', () => {
    const elder = node('b', ['10.0.2.0/24'], ['192.0.2.2'], '2025')
    const stray = node('c', ['10.0.3.0/24'], ['10.0.2.1', '10.0.1.1'], '2027')
    const seen = view([stray, elder, self])
    expect(seen.own).toEqual(self.podCidrs)
    expect(seen.peers.map(({ ranges }) => ranges)).toEqual([['10.0.2.0/24'], ['10.0.3.0/24']])
    expect(idsOf(seen)).toEqual(['c BadInternalIP', 'c BadInternalIP'])
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
    expect(idsOf(seen).sort()).toEqual(['b OverlappingPodCIDR', 'self OverlappingPodCIDR'])
  })

  it('tells the younger of two nodes with a range, where that is this one', () => {
    const elder = node('z', ['10.0.1.0/24'], [], '2001')
    const seen = view([self, elder])
    expect(seen.own).toEqual(self.podCidrs)
    expect(seen.problems).toMatchObject([
      {
        id: 'OverlappingPodCIDR',
        node: 'self',
        text: expect.stringContaining('of node z, the elder: delete this Node'),
      },
    ])
    expect(idsOf(view([self, { ...elder, created: '2027' }]))).toEqual(['z OverlappingPodCIDR'])
  })

  it('tells of an own range that overlaps a subnet of the node, and blames no other node for it', () => {
    const b = node('b', ['10.0.2.0/24'], ['192.0.2.200', '2001:db8::2'])
    for (const range of ['192.0.2.0/24', '192.0.2.128/25', '2001:db8::/64', '2001:db8:0:0:8000::/65']) {
      const own = node('self', [range], ['192.0.2.1', '2001:db8::1'])
      const seen = view([own, b])
      expect(idsOf(seen), range).toEqual(['self OverlapsHost'])
      expect(seen.problems[0]?.text).toMatch(
        /^podCIDR \S+ overlaps \S+ of eth0 on this node: .*register it again with another range$/,
      )
      expect(seen.peers).toEqual([{ name: 'b', ranges: ['10.0.2.0/24'], addresses: ['192.0.2.200', '2001:db8::2'] }])
      expect(idsOf(view([own], { allowOverlap: true }))).toEqual([])
    }
    // A route that a person made, of a tunnel for one, is no subnet of the node.
    const tunnel = { ...here, subnets: [...here.subnets, subnet('10.0.0.0/8', false)] }
    expect(idsOf(view([self], { here: tunnel }))).toEqual([])
  })

  it('counts no range of another node for a peer’s that it refuses, be it today’s or an earlier one', () => {
    const docker = {
      ...here,
      subnets: [...here.subnets, { dst: '10.0.2.0/24', dev: 'docker0', isOfLink: true }],
    }
    const b = node('b', ['10.0.2.0/24', 'fd00:2::/64'], ['192.0.2.2'])
    const seen = view([self, b], { here: docker })
    expect(seen.peers).toEqual([{ name: 'b', ranges: ['fd00:2::/64'], addresses: ['192.0.2.2'] }])
    expect(seen.problems).toEqual([
      { id: 'OverlapsHost', node: 'b', text: 'podCIDR 10.0.2.0/24 overlaps 10.0.2.0/24 of docker0 on this node' },
    ])
    for (const refused of ['10.0.2.0/24', '192.0.0.0/16']) {
      const remembered = [{ name: 'b', ranges: [refused], addresses: ['192.0.2.2'] }]
      const now = node('b', ['10.0.5.0/24'], ['192.0.2.2'])
      expect(view([self, now], { here: docker, remembered }).peers[0]?.ranges, refused).toEqual(['10.0.5.0/24'])
    }
    expect(view([self, b], { here: docker, allowOverlap: true }).peers[0]?.ranges).toEqual([
      '10.0.2.0/24',
      'fd00:2::/64',
    ])
  })

  it('routes a range beside a wider route of a person, and none that such a route takes from', () => {
    const b = node('b', ['10.0.2.0/24'], ['192.0.2.2', '10.0.2.7'])
    const c = node('c', [], ['10.0.2.7'])
    const seen = (dst: string, isOfLink: boolean) =>
      view([self, b, c], { here: { ...here, subnets: [...here.subnets, { dst, dev: 'tun0', isOfLink }] } })
    const wide = seen('10.0.0.0/8', false)
    expect(wide.peers).toEqual([
      { name: 'b', ranges: ['10.0.2.0/24'], addresses: ['192.0.2.2'] },
      { name: 'c', ranges: [], addresses: [] },
    ])
    expect(idsOf(wide)).toEqual(['c NoPodCIDR', 'c BadInternalIP'])
    for (const [dst, isOfLink] of [
      ['10.0.0.0/8', true],
      ['10.0.2.0/24', false],
      ['10.0.2.128/25', false],
    ] as const) {
      const found = seen(dst, isOfLink)
      expect(found.peers[0]?.ranges, dst).toEqual([])
      expect(idsOf(found), dst).toContain('b OverlapsHost')
    }
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

describe('the addresses of nodes', () => {
  const b = node('b', ['10.0.2.0/24'], ['192.0.2.2'], '2026')
  const [elder, younger] = ['2001', '2030']
  const seen = (...nodes: ReturnType<typeof node>[]) => {
    const found = view([self, ...nodes])
    const peers = Object.fromEntries(found.peers.map(({ name, ...rest }) => [name, rest]))
    return { ...found, peers, told: found.problems.map(({ id, node: name, text }) => `${name} ${id} ${text}`) }
  }

  it('that are of the own bridge are nothing, whatever they were for the range before', () => {
    const listing = view([
      node('self', ['10.0.1.0/24'], ['10.0.1.1', '192.0.2.1']),
      node('b', ['10.0.2.0/24'], ['10.0.2.1']),
    ])
    expect(listing.own).toEqual(['10.0.1.0/24'])
    expect(listing.peers).toEqual([{ name: 'b', ranges: ['10.0.2.0/24'], addresses: [] }])
    expect(listing.problems).toEqual([])
  })

  it('take no range from another node, also where they are the elder’s, and are dropped there', () => {
    for (const created of [elder, younger]) {
      const thief = node('c', ['10.0.3.0/24'], ['10.0.2.7', '10.0.1.9', '192.0.2.3'], created)
      const { own, peers, told } = seen(b, thief)
      expect(own, created).toEqual(self.podCidrs)
      expect(peers).toEqual({
        b: { ranges: ['10.0.2.0/24'], addresses: ['192.0.2.2'] },
        c: { ranges: ['10.0.3.0/24'], addresses: ['192.0.2.3'] },
      })
      expect(told).toEqual([
        'c BadInternalIP InternalIP 10.0.2.7 is in podCIDR 10.0.2.0/24 of node b',
        'c BadInternalIP InternalIP 10.0.1.9 is in podCIDR 10.0.1.0/24 of node self',
      ])
    }
  })

  it('of this node are told of here, and keep no other range from being routed', () => {
    const found = view([{ ...self, addresses: ['192.0.2.1', '10.0.2.7'] }, b])
    expect(found.peers).toEqual([{ name: 'b', ranges: ['10.0.2.0/24'], addresses: ['192.0.2.2'] }])
    expect(idsOf(found)).toEqual(['self BadInternalIP'])
  })

  it('that are on a subnet of this node stay, and the range around them is no way to anything', () => {
    const range = node('c', ['192.0.2.128/25'], ['192.0.2.3'], elder)
    const { peers } = seen(node('b', ['10.0.2.0/24'], ['192.0.2.200']), range)
    expect(peers['b']).toEqual({ ranges: ['10.0.2.0/24'], addresses: ['192.0.2.200'] })
  })

  it('that no other node can send to are dropped, and told', () => {
    const wrong = [
      '169.254.1.1',
      'fe80::1',
      '127.0.0.1',
      '::1',
      '224.0.0.1',
      '0.0.0.0',
      '::',
      '192.0.2.255',
      '192.0.2.0',
    ]
    for (const address of [...wrong, '192.0.2.1', '2001:db8::1']) {
      const { peers, told } = seen({ ...b, addresses: [address, '192.0.2.2'] })
      expect(peers['b'], address).toEqual({ ranges: ['10.0.2.0/24'], addresses: ['192.0.2.2'] })
      expect(told, address).toHaveLength(1)
      expect(told[0], address).toMatch(new RegExp(`^b BadInternalIP InternalIP ${address} is `))
    }
  })

  it('that two nodes list are named at the younger one', () => {
    const twin = node('c', ['10.0.3.0/24'], ['192.0.2.3', '192.0.2.2'], younger)
    const { peers, told } = seen(b, twin)
    expect(told).toEqual(["c BadInternalIP InternalIP 192.0.2.2 is node b's, too"])
    expect(peers['c']?.addresses).toEqual(['192.0.2.3', '192.0.2.2'])
  })
})

describe('--cluster-cidr', () => {
  const bounds = ['10.0.0.0/16', 'fd00:1::/32'].map((text) => parseCidr(text) as Cidr)
  const peer = (cidr: string) => node('b', [cidr], ['192.0.2.2'])

  it('bounds the ranges of other nodes, today’s and earlier ones', () => {
    expect(idsOf(view([self, peer('10.0.2.0/24')], { bounds }))).toEqual([])
    for (const cidr of ['10.1.2.0/24', '10.0.0.0/15', 'fd01:2::/64', '8.8.8.0/24']) {
      const found = view([self, peer(cidr)], { bounds })
      expect(found.peers[0]?.ranges, cidr).toEqual([])
      expect(idsOf(found)).toEqual(['b BeyondClusterCIDR'])
    }
    const remembered = [{ name: 'b', ranges: ['10.1.9.0/24', '10.0.9.0/24'], addresses: ['192.0.2.2'] }]
    expect(view([self, peer('10.0.2.0/24')], { bounds, remembered }).peers[0]?.ranges).toEqual([
      '10.0.2.0/24',
      '10.0.9.0/24',
    ])
  })

  it('is told of this node’s own range, which its pods have all the same', () => {
    const found = view([self], { bounds: [parseCidr('10.2.0.0/16'), parseCidr('fd00:1::/32')] })
    expect(found.own).toEqual(['10.0.1.0/24', 'fd00:1::/64'])
    expect(found.problems).toMatchObject([
      {
        id: 'BeyondClusterCIDR',
        node: 'self',
        text: expect.stringMatching(/^podCIDR 10\.0\.1\.0\/24 is beyond 10\.2/),
      },
    ])
  })

  it('is what a public range needs, which is told otherwise', () => {
    const found = view([self, peer('8.8.8.0/24')])
    expect(found.peers[0]?.ranges).toEqual(['8.8.8.0/24'])
    expect(idsOf(found)).toEqual(['b PublicPodCIDR'])
    const all = ['self', 'b', 'c'].map((name, at) => node(name, [`8.8.${at}.0/24`], [`192.0.2.${at + 1}`]))
    expect(idsOf(view(all))).toEqual(['self PublicPodCIDR'])
  })

  it('is told where it holds a node’s address or is public itself', () => {
    const wide = (text: string) => idsOf(view([self, peer('10.0.2.0/24')], { bounds: [...bounds, parseCidr(text)] }))
    expect(wide('192.0.0.0/16')).toEqual(['self WideClusterCIDR'])
    expect(wide('8.0.0.0/8')).toEqual(['self WideClusterCIDR'])
  })
})

describe('an earlier range', () => {
  it('that today’s is a part of goes on without that part', () => {
    const smaller = node('self', ['10.0.1.0/25'], ['192.0.2.1'])
    const found = view([smaller, node('b', ['10.0.2.0/25'], ['192.0.2.2'])], {
      earlierPods: ['10.0.1.0/24'],
      remembered: [{ name: 'b', ranges: ['10.0.2.0/23'], addresses: ['192.0.2.2'] }],
    })
    expect(found.pods).toEqual(['10.0.1.0/25', '10.0.1.128/25'])
    expect(found.peers[0]?.ranges).toEqual(['10.0.2.0/25', '10.0.2.128/25', '10.0.3.0/24'])
    expect(idsOf(found)).toEqual(['self MovedPodCIDR'])
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
