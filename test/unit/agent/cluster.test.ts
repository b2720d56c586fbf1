// SPDX-License-Identifier: Apache-2.0
// What the Nodes mean for this node: whose a range is, the way to it, what is told, and which routes stay.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { overheadOf, problemIds } from '../../../src/agent/cluster.ts'
import type { KernelRoute } from '../../../src/agent/routes.ts'
import {
  addressesOf,
  base,
  decide,
  encapsulated,
  ids,
  link,
  node,
  ours,
  rangesOf,
  self,
  texts,
  told,
  two,
  via,
  ways,
} from './cluster-facts.ts'

describe('the own ranges', () => {
  it('keep the order of families of the Node', () => {
    expect(texts(decide([node('self', ['fd00:1::/64', '10.0.1.0/24'], ['192.0.2.1'])]).own)).toEqual([
      'fd00:1::/64',
      '10.0.1.0/24',
    ])
  })

  it('are those that pods can have addresses of', () => {
    const odd = node('self', ['10.0.1.0/24', '10.0.2.0/24', '10.0.3.0/31', 'fd00::2/127', 'x', 'fd00:1::/64'], [])
    const found = decide([odd])
    expect(texts(found.own)).toEqual(['10.0.1.0/24', 'fd00:1::/64'])
    expect(told(found)).toEqual([
      'self BadPodCIDR podCIDR 10.0.2.0/24 is a second range of IPv4',
      'self BadPodCIDR podCIDR 10.0.3.0/31 has no room for pods',
      'self BadPodCIDR podCIDR fd00::2/127 has no room for pods',
      'self BadPodCIDR podCIDR "x" is no CIDR',
    ])
    expect(ids(decide([node('self', [], [])]))).toEqual(['self NoPodCIDR'])
    expect(decide([two])).toMatchObject({ own: [], isYounger: false })
  })

  it.each(['192.0.2.0/24', '192.0.2.128/25', '192.0.0.0/16', '2001:db8::/64', '2001:db8:0:0:8000::/65'])(
    'that overlap a subnet of the node are told of: %s',
    (text) => {
      const own = node('self', [text], ['192.0.2.1'])
      const found = decide([own])
      expect(texts(found.own)).toEqual([text])
      expect(told(found)).toEqual([expect.stringMatching(/^self OverlapsHost podCIDR \S+ overlaps \S+ of eth0: /)])
      expect(ids(decide([own], { allowOverlap: true }))).toEqual([])
    },
  )

  it('that overlap a subnet of the node take no other node its address', () => {
    const found = decide([node('self', ['192.0.2.128/25'], ['192.0.2.1']), node('b', ['10.0.2.0/24'], ['192.0.2.200'])])
    expect(ids(found)).toEqual(['self OverlapsHost'])
    expect(ways(found)).toEqual(['10.0.2.0/24 via 192.0.2.200 dev eth0'])
  })

  // a range that overlaps a subnet is not claimed at all, and another node gets the rest of it, with its pods.
  it('that overlap a subnet of the node are no other node’s', () => {
    const [own, b] = [node('self', ['10.0.4.0/22'], ['192.0.2.1']), node('b', ['10.0.6.0/24'], ['192.0.2.2'])]
    expect(rangesOf(decide([own, b], { routes: [...base, link('10.0.5.0/24', 'eth1')] }))).toEqual({ b: [] })
  })

  // nor is an earlier range that overlaps one of today: another node gets the rest of it, and live pods with it
  // (the old agent took today's range out of it, and claimed the rest).
  it('and earlier ones that are in part those of today are no other node’s', () => {
    const [own, b] = [node('self', ['10.0.1.0/25'], ['192.0.2.1']), node('b', ['10.0.1.128/25'], ['192.0.2.2'])]
    expect(rangesOf(decide([own, b], { earlier: ['10.0.1.0/24'] }))).toEqual({ b: [] })
  })

  // a wider route that a person or a VPN made loses to the routes of the ranges, and stops no pod. Such a node
  // is never ready now, and routes nothing (the old agent told of no problem).
  it('and those of others may be within a wider route that somebody made', () => {
    const found = decide([self, two], { routes: [...base, link('10.0.0.0/8', 'wg0', { protocol: 3 })] })
    expect(ids(found)).toEqual([])
    expect(rangesOf(found)).toEqual({ two: ['10.0.2.0/24', 'fd00:2::/64'] })
  })

  it.each(['10.0.2.0/24', '10.0.2.128/25'])('a range of another node is not routed beside a route to %s', (text) => {
    const found = decide([self, two], { routes: [...base, link(text, 'wg0', { protocol: 3 })] })
    expect(told(found)).toEqual([`two OverlapsHost podCIDR 10.0.2.0/24 overlaps ${text} of wg0: it is not routed`])
  })
})

describe('the ranges of other nodes', () => {
  it('are routed but for those that no pod can have, or that have an address of this node', () => {
    const bad = ['10.0.2.0/33', '10.0.2.1/24', 'x', '0.0.0.0/0', '127.0.0.0/16', 'fe80::/64', '::/64', '192.0.2.0/24']
    for (const text of [...bad, '192.0.0.0/16', '2001:db8::/64']) {
      const found = decide([self, node('b', [text, 'fd00:2::/64'], ['192.0.2.2'])])
      expect([ids(found), rangesOf(found)], text).toEqual([['b BadPodCIDR'], { b: ['fd00:2::/64'] }])
    }
  })

  it.each([
    ['10.99.0.10', '10.99.0.0/16', 'fd00:2::/64'],
    ['fd00:99::10', 'fd00:99::/64', '10.0.2.0/24'],
  ])('have the API server %s not in them, and the own ranges neither', (apiServer, bad, good) => {
    const found = decide([self, node('b', [bad, good], ['192.0.2.2'])], { apiServer })
    expect(told(found)).toEqual([`b BadPodCIDR podCIDR ${bad} has the API server's address ${apiServer} in it`])
    const own = decide([node('self', [bad, good], ['192.0.2.1'])], { apiServer })
    expect([ids(own), texts(own.own), rangesOf(found)]).toEqual([['self BadPodCIDR'], [good], { b: [good] }])
  })

  it('go to the elder of two nodes, and never one of ours to another', () => {
    const elder = node('z', ['10.0.2.0/24'], ['192.0.2.4'], { created: '2025' })
    const younger = node('b', ['10.0.2.0/25'], ['192.0.2.5'])
    const thief = node('a', ['10.0.0.0/16'], ['192.0.2.6'], { created: '2020' })
    const found = decide([younger, thief, elder, self])
    expect(texts(found.own)).toEqual(['10.0.1.0/24', 'fd00:1::/64'])
    expect(rangesOf(found)).toEqual({ a: [], b: [], z: ['10.0.2.0/24'] })
    expect([...ids(found)].sort()).toEqual(['b OverlappingPodCIDR', 'self OverlappingPodCIDR'])
    expect(found.isYounger).toBe(true)
  })

  it('that are ours as well are told of at the younger node', () => {
    const other = (created: string) => node('z', ['10.0.1.0/24'], ['192.0.2.4'], { created })
    const younger = decide([self, other('2001')])
    expect(told(younger)[0]).toMatch(/^self .* of node z, the elder: delete this Node and register/)
    const elder = decide([self, other('2027')])
    expect([ids(elder), elder.isYounger]).toEqual([['z OverlappingPodCIDR'], false])
    // Of one age the name decides.
    expect(ids(decide([self, other('2026')]))).toEqual(['z OverlappingPodCIDR'])
    // A former range of this node, of which pods are left, is no range of its Node.
    const left = decide([self, node('z', ['10.0.9.0/24'], ['192.0.2.4'])], { earlier: ['10.0.9.0/24'] })
    expect([told(left), left.isYounger]).toEqual([[expect.stringMatching(/^z .*of which pods are left here/)], false])
  })

  it('are within --cluster-cidr; an own one beyond it is told of, and pods have it all the same', () => {
    const bounds = ['10.0.0.0/16', 'fd00:1::/32']
    const to = (text: string) => decide([self, node('b', [text], ['192.0.2.2'])], { bounds })
    expect(ids(to('10.0.2.0/24'))).toEqual([])
    for (const text of ['10.1.2.0/24', '10.0.0.0/15', 'fd01:2::/64', '8.8.8.0/24'])
      expect([rangesOf(to(text)), ids(to(text))], text).toEqual([{ b: [] }, ['b BeyondClusterCIDR']])
    const own = decide([self], { bounds: ['10.2.0.0/16', 'fd00:1::/32'] })
    expect(texts(own.own)).toEqual(['10.0.1.0/24', 'fd00:1::/64'])
    expect(ids(own)).toEqual(['self BeyondClusterCIDR'])
    expect(ids(decide([self, node('b', ['8.8.8.0/24'], ['192.0.2.2'])]))).toEqual([])
  })

  it('that a subnet of this node overlaps are not routed, unless that is allowed', () => {
    const wide = [via('0.0.0.0/0', '10.0.0.254'), link('10.0.0.0/8', 'eth0')]
    const found = (more: object) =>
      decide([self, node('b', ['10.244.2.0/24'], ['10.0.0.2'])], { routes: wide, ...more })
    expect(ids(found({}))).toEqual(['self OverlapsHost', 'b OverlapsHost'])
    expect(ways(found({ allowOverlap: true }))).toEqual(['10.244.2.0/24 via 10.0.0.2 dev eth0'])
  })

  it('that pods here still have addresses of are not given to another', () => {
    const other = node('b', ['10.0.7.0/24'], ['192.0.2.2'], { created: '2030' })
    const found = decide([self, other], { earlier: ['10.0.7.0/24'] })
    expect(rangesOf(found)).toEqual({ b: [] })
    expect(ids(found)).toEqual(['b OverlappingPodCIDR'])
  })
})

describe('the addresses of nodes', () => {
  const b = (...addresses: string[]) => node('b', ['10.0.2.0/24'], addresses)

  it('that are of the own bridge are nothing', () => {
    const found = decide([node('self', ['10.0.1.0/24'], ['10.0.1.1', '192.0.2.1']), b('10.0.2.1')])
    expect(addressesOf(found)).toEqual({ b: [] })
    expect(ids(found)).toEqual(['b NoInternalIP'])
  })

  it.each(['2001', '2030'])('of a node of %s take no range from another, and are dropped there', (created) => {
    const thief = node('c', ['10.0.3.0/24'], ['10.0.2.7', '10.0.1.9', '192.0.2.3'], { created })
    const found = decide([self, b('192.0.2.2'), thief])
    expect(texts(found.own)).toEqual(['10.0.1.0/24', 'fd00:1::/64'])
    expect(rangesOf(found)).toEqual({ b: ['10.0.2.0/24'], c: ['10.0.3.0/24'] })
    expect(addressesOf(found)).toEqual({ b: ['192.0.2.2'], c: ['192.0.2.3'] })
    expect(told(found)).toEqual([
      'c BadInternalIP InternalIP 10.0.2.7 is in podCIDR 10.0.2.0/24 of node b',
      'c BadInternalIP InternalIP 10.0.1.9 is in podCIDR 10.0.1.0/24 of node self',
    ])
  })

  it('of this node are told of here', () => {
    const found = decide([node('self', ['10.0.1.0/24'], ['192.0.2.1', '10.0.2.7']), b('192.0.2.2')])
    expect(ways(found)).toEqual(['10.0.2.0/24 via 192.0.2.2 dev eth0'])
    expect(ids(found)).toEqual(['self BadInternalIP'])
  })

  it('that others cannot send to are dropped, and told of', () => {
    const wrong = '169.254.1.1 fe80::1 127.0.0.1 ::1 224.0.0.1 0.0.0.0 :: 192.0.2.255 192.0.2.0'.split(' ')
    for (const text of [...wrong, '192.0.2.1', '2001:db8::1']) {
      const found = decide([self, b(text, '192.0.2.2')])
      expect(addressesOf(found), text).toEqual({ b: ['192.0.2.2'] })
      expect(told(found)).toEqual([expect.stringContaining(`b BadInternalIP InternalIP ${text} is `)])
    }
  })

  it('that two nodes list are the elder’s', () => {
    const twin = node('c', ['10.0.3.0/24'], ['192.0.2.3', '192.0.2.2'], { created: '2030' })
    const found = decide([self, b('192.0.2.2'), twin])
    expect(told(found)).toEqual(["c BadInternalIP InternalIP 192.0.2.2 is node b's, which is the elder"])
    expect(addressesOf(found)).toEqual({ b: ['192.0.2.2'], c: ['192.0.2.3'] })
  })
})

describe('the way', () => {
  const far = node('far', ['10.0.3.0/24', 'fd00:3::/64'], ['198.51.100.3', '2001:db8:9::3'])
  const direct = ['10.0.2.0/24 via 192.0.2.2 dev eth0', 'fd00:2::/64 via 2001:db8::2 dev eth0']
  const farWays = ['10.0.3.0/24 encap 198.51.100.3', 'fd00:3::/64 encap 198.51.100.3']

  it('is by the link that the node is on, else through the overlay as --overlay says', () => {
    expect(ways(decide([self, two, far]))).toEqual([...farWays, ...direct])
    const never = decide([self, two, far], { when: 'never' })
    expect(ways(never)).toEqual(direct)
    const text = '198.51.100.3 is on no link of this node, but behind a router: 10.0.3.0/24 is not routed'
    expect(told(never)[0]).toBe(`far NotOnSegment ${text} (--overlay auto does)`)
    expect(ids(never)).toEqual(['far NotOnSegment', 'far NotOnSegment'])
    const always = [...farWays, '10.0.2.0/24 encap 192.0.2.2', 'fd00:2::/64 encap 192.0.2.2']
    expect(ways(decide([self, two, far], { when: 'always' }))).toEqual(always)
  })

  it('through the overlay is by the first address of IPv4, of IPv6 where there is no other', () => {
    const to = (...addresses: string[]) => ways(decide([self, node('b', ['10.0.3.0/24', 'fd00:3::/64'], addresses)]))
    expect(to('2001:db8:9::3', '198.51.100.3')).toEqual(farWays)
    expect(to('2001:db8:9::3')).toEqual(['10.0.3.0/24 encap 2001:db8:9::3', 'fd00:3::/64 encap 2001:db8:9::3'])
    // One family on the segment, and the other through the overlay to the same node.
    expect(to('192.0.2.3')).toEqual(['10.0.3.0/24 via 192.0.2.3 dev eth0', 'fd00:3::/64 encap 192.0.2.3'])
    expect(to()).toEqual([])
  })

  it('is missing where the node has no address of the family', () => {
    const found = (when: 'auto' | 'never', ...addresses: string[]) =>
      told(decide([self, node('b', ['fd00:3::/64'], addresses)], { when }))
    const none = ['b NoInternalIP no InternalIP of IPv6: fd00:3::/64 is not routed to it']
    expect(found('never', '192.0.2.3')).toEqual(none)
    expect([found('auto', '192.0.2.3'), found('auto')]).toEqual([[], none])
  })

  it('is left to the cloud’s own route to all pods, but not to the default route', () => {
    const routes = [...base, via('10.0.0.0/16', '192.0.2.254')]
    expect(ways(decide([self, two, far], { routes }))).toEqual(['fd00:3::/64 encap 198.51.100.3', ...direct])
    expect(ids(decide([self, two, far], { routes }))).toEqual([])
    expect(ways(decide([self, far], { routes, when: 'always' }))).toEqual(farWays)
  })

  it('is none with --cloud-routes, and nothing is told', () => {
    const found = decide([self, two, far], { isCloudRouted: true, isRouted: true, when: 'never' })
    expect([found.wanted, found.problems]).toEqual([[], []])
  })

  // Both ends have to decide alike: by what the other one publishes of its links.
  it.each([
    ['via 192.0.2.2 dev eth0', ['192.0.2.0/24', '192.0.2.0/25 198.51.100.0/24', undefined]],
    ['encap 192.0.2.2', ['192.0.2.2/32', '192.0.2.128/25', '2001:db8::/64', 'x']],
  ])('is %s to a node that publishes one of %s', (way, published) => {
    for (const subnets of published) {
      const other = node('b', ['10.0.2.0/24'], ['192.0.2.2'], subnets === undefined ? {} : { subnets })
      expect(ways(decide([self, other])), subnets).toEqual([`10.0.2.0/24 ${way}`])
    }
  })

  it.each([
    [via('10.0.2.0/24', '192.0.2.7', { protocol: 4 }), 'is used: 10.0.2.0/24 via 192.0.2.7 dev eth0 metric 0'],
    [via('10.0.2.0/24', '192.0.2.7', { metric: 116 }), 'metric 116'],
    [link('10.0.2.0/24', 'cni1'), 'pods here still have addresses of 10.0.2.0/24, by cni1: drain this node'],
    // A person's route of IPv6 has 1024 by itself.
    [via('fd00:2::/64', '2001:db8::7', { metric: 1024 }), 'metric 1024'],
    // With a larger metric ours is the one that counts.
    [via('10.0.2.0/24', '192.0.2.7', { metric: 500 }), undefined],
    [link('fd00:2::/64', 'cni1', { metric: 256 }), undefined],
  ])('is not taken from another route that wins %#', (route, text) => {
    const found = decide([self, two], { routes: [...base, route] })
    expect(told(found)).toEqual(text === undefined ? [] : [expect.stringContaining(text)])
    expect(told(found).every((line) => line.startsWith('two ForeignRoute '))).toBe(true)
    expect(found.wanted.length).toBe(text === undefined ? 2 : 1)
  })

  it('is unreachable for the own and earlier ranges of routed pods', () => {
    const all = ['unreachable 10.0.1.0/24', 'unreachable fd00:1::/64', 'unreachable 10.0.7.0/24']
    expect(ways(decide([self], { isRouted: true, earlier: ['10.0.7.0/24'] }))).toEqual(all)
    expect(ways(decide([self], { earlier: ['10.0.7.0/24'] }))).toEqual([])
  })

  it('is unreachable for no range that a subnet of a link is in', () => {
    const routes = [...base, link('2001:db8:1::/64', 'eth1', { metric: 256, protocol: 9 })]
    const wanted = (text: string, allowOverlap: boolean) =>
      ways(decide([node('self', [text], [])], { routes, isRouted: true, allowOverlap }))
    for (const allowOverlap of [false, true]) {
      expect(wanted('10.0.1.0/24', allowOverlap)).toEqual(['unreachable 10.0.1.0/24'])
      for (const text of ['192.0.2.0/24', '192.0.0.0/16', '2001:db8::/32', '2001:db8:1::/64'])
        expect(wanted(text, allowOverlap)).toEqual([])
    }
  })

  // inside a wider subnet the range is the pods' alone where allowOverlap says so: without the unreachable route
  // packets for a pod that is gone leave by eth0 (the old agent had it).
  it('is unreachable for a range inside a wider subnet where that is allowed', () => {
    const own = node('self', ['192.0.2.128/25'], [])
    expect(ways(decide([own], { isRouted: true, allowOverlap: true }))).toEqual(['unreachable 192.0.2.128/25'])
  })
})

describe('the MTU', () => {
  const mtus = { eth0: 1500, eth1: 9000 }
  const routes = [...base, link('198.51.100.0/24', 'eth1'), via('203.0.113.0/24', '198.51.100.254', { dev: 'eth1' })]
  const found = (addresses: readonly string[], more = {}) => {
    const nodes = addresses.map((each, at) => node(`n${at}`, [`10.0.${at + 2}.0/24`], [each]))
    const { mtu, overlayMtu } = decide([self, ...nodes], { routes, mtus, ...more })
    return [mtu, overlayMtu]
  }
  it.each([
    [[], undefined, 1444],
    [['192.0.2.2'], 1500, 1464],
    [['198.51.100.2'], 9000, 8964],
    [['198.51.100.2', '192.0.2.2'], 1500, 1464],
    [['203.0.113.2'], 8964, 8964],
    [['203.0.113.2', '198.18.0.2'], 1464, 1464],
    [['198.51.100.2', '203.0.113.2'], 8964, 8964],
  ])('to %s: %s, in the overlay %s', (addresses, mtu, overlayMtu) => {
    expect(found(addresses)).toEqual([mtu, overlayMtu])
  })

  it('is less over IPv6, and unknown where no link has one', () => {
    expect([overheadOf('192.0.2.2'), overheadOf('2001:db8::2')]).toEqual([20 + 8 + 8, 40 + 8 + 8])
    expect(found(['2001:db8::2'], { when: 'always' })).toEqual([1444, 1444])
    expect(found(['192.0.2.2'], { mtus: {} })).toEqual([undefined, 1444])
  })

  it('is not counted for ranges without a way', () => {
    expect(found(['203.0.113.2', '198.51.100.2'], { when: 'never' })[0]).toBe(9000)
  })
})

it('the subnets that are published are those of links with an InternalIP', () => {
  const pods = [link('10.0.1.5/32', 'veth1'), link('10.0.1.0/24', 'cni0'), link('10.1.0.0/24', 'cni0.7')]
  const overlay = [link('10.0.1.0/24', 'trestle0'), ours('10.0.2.0/24', '192.0.2.2')]
  const more = [link('fe80::/64', 'eth0'), link('198.18.0.0/15', 'wg0', { protocol: 3 })]
  const subnet = link('2001:db8:1::/64', 'eth0', { protocol: 9 })
  const { subnets } = decide([self], { routes: [...base, ...pods, ...overlay, ...more, subnet] })
  expect(texts(subnets)).toEqual(['192.0.2.0/24'])
  const both = node('self', ['10.0.1.0/24'], ['192.0.2.1', '2001:db8:1::7'])
  const all = decide([both], { routes: [...base, subnet] })
  expect(texts(all.subnets)).toEqual(['192.0.2.0/24', '2001:db8:1::/64'])
})

describe('routes that nobody wants', () => {
  type More = { since?: ReadonlyMap<string, number>; bounds?: string[] }
  const at = (routes: readonly KernelRoute[], nowMs: number, more: More = {}) => {
    const found = decide([self, two], { routes: [...base, ...routes], nowMs, ...more })
    return { kept: [...found.kept].map(({ range: { text } }) => text), since: found.since }
  }

  it('keeps the former range of a Node that is there, as long as nobody else has it', () => {
    const former = [ours('10.0.9.0/24', '192.0.2.2'), encapsulated('10.0.8.0/24', '192.0.2.2')]
    expect(at(former, 0)).toEqual({ kept: ['10.0.9.0/24', '10.0.8.0/24'], since: new Map() })
    expect(at(former, 1e9).kept).toEqual(['10.0.9.0/24', '10.0.8.0/24'])
    const taken = ['10.0.2.0/25', '10.0.0.0/16', '10.0.1.0/25'].map((text) => ours(text, '192.0.2.2'))
    expect(at(taken, 0).kept).toEqual([])
    expect(at(former, 0, { bounds: ['10.0.8.0/24'] }).kept).toEqual(['10.0.8.0/24'])
  })

  it('keeps the route to a Node that vanished for ten minutes from when that was seen', () => {
    const gone = [ours('10.0.9.0/24', '192.0.2.9')]
    const first = at(gone, 5000)
    expect(first).toEqual({ kept: ['10.0.9.0/24'], since: new Map([['10.0.9.0/24', 5000]]) })
    expect(at(gone, 604_999, first)).toEqual(first)
    expect(at(gone, 605_000, first)).toEqual({ kept: [], since: first.since })
    // It came back in between.
    expect(at([], 300_000, first).since).toEqual(new Map())
    expect(at(gone, 605_000, { since: new Map() }).kept).toEqual(['10.0.9.0/24'])
  })

  it('keeps nothing else: no wanted, foreign or unreachable route, none of another metric', () => {
    const unreachable = link('10.0.9.0/24', 'lo', { isUnicast: false, metric: 116, protocol: 116 })
    const stray = ours('10.0.9.0/24', '192.0.2.2', { metric: 50 })
    const others = [ours('10.0.2.0/24', '192.0.2.2'), via('10.0.9.0/24', '192.0.2.2'), unreachable, stray]
    expect(at(others, 0)).toEqual({ kept: [], since: new Map() })
  })

  it('keeps no route that has the address of a node in it', () => {
    const routes = [...base, ours('10.0.9.0/24', '192.0.2.2')]
    const decision = decide([self, two, node('b', ['10.0.3.0/24'], ['10.0.9.4'])], { routes })
    expect(ways(decision)).toContain('10.0.3.0/24 encap 10.0.9.4')
    expect(decision.kept.size).toBe(0)
  })

  it('keeps no route to a range that its Node lists, and that is refused', () => {
    const routes = [...base, link('10.0.0.0/22', 'eth1'), ours('10.0.2.0/24', '192.0.2.2')]
    const decision = decide([self, two], { routes })
    expect(ids(decision)).toContain('two OverlapsHost')
    expect(decision.kept.size).toBe(0)
  })
})

it('problems are those of the catalogue, and docs/kubernetes.md has the same table', () => {
  const [, ...rows] = readFileSync('src/catalogue/agent.tsv', 'utf8').trim().split('\n')
  const columns = rows.map((row) => row.split('\t'))
  const lines = columns.map(([id, meaning, cause, cure]) => `| \`${id}\` | ${meaning}: ${cause} | ${cure} |\n`)
  expect(readFileSync('docs/kubernetes.md', 'utf8')).toContain(`|---|---|---|\n${lines.join('')}\n`)
  expect(columns.map(([id]) => id).sort()).toEqual([...problemIds].sort())
})
