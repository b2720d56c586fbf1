// SPDX-License-Identifier: Apache-2.0
// The difference between the routes that are wanted and those that are there: no foreign route is ever in it.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hereByRoutes, type NodeRoute, planRoutes } from '../../../../src-before/plan/agent/routes.ts'
import { readNodeRoutes, refusedRoutes, routeBatch } from '../../../../src-before/tools/node-routes.ts'

const link = (dst: string, dev: string, metric = 0): NodeRoute => ({ dst, type: 'unicast', dev, metric, protocol: 2 })
const via = (dst: string, gateway: string, protocol: number, metric = 0): NodeRoute => {
  return { dst, type: 'unicast', gateway, dev: 'eth0', metric, protocol }
}
const own = (dst: string, gateway: string) => via(dst, gateway, 116, 116)
const base = [via('0.0.0.0/0', '192.0.2.254', 3), link('192.0.2.0/24', 'eth0'), link('2001:db8::/64', 'eth0', 256)]
const two = { name: 'two', ranges: ['10.0.2.0/24', 'fd00:2::/64'], addresses: ['192.0.2.2', '2001:db8::2'] }
const plan = (routes: readonly NodeRoute[], peers = [two], more = {}) =>
  planRoutes({
    ...{ peers, pods: ['10.0.1.0/24'], routes, isRouted: false },
    ...{ allowOverlap: false, refused: new Set<string>(), ...more },
  })
const text = (routes: readonly NodeRoute[], peers = [two]) => routeBatch(plan(routes, peers).changes)

describe('planRoutes', () => {
  it('adds what is missing, by the link that the peer is on', () => {
    expect(text(base)).toBe(
      [
        'route replace 10.0.2.0/24 via 192.0.2.2 dev eth0 metric 116 proto 116',
        'route replace fd00:2::/64 via 2001:db8::2 dev eth0 metric 116 proto 116',
        '',
      ].join('\n'),
    )
  })

  it('changes nothing where all is there', () => {
    const there = [own('10.0.2.0/24', '192.0.2.2'), own('fd00:2::/64', '2001:db8::2')]
    expect(plan([...base, ...there]).changes).toEqual([])
  })

  it('replaces a route to another address in one step, and removes what is over', () => {
    const there = [own('10.0.2.0/24', '192.0.2.9'), own('fd00:2::/64', '2001:db8::2'), own('10.0.3.0/24', '192.0.2.3')]
    expect(text([...base, ...there])).toBe(
      [
        'route del 10.0.3.0/24 via 192.0.2.3 dev eth0 metric 116 proto 116',
        'route replace 10.0.2.0/24 via 192.0.2.2 dev eth0 metric 116 proto 116',
        '',
      ].join('\n'),
    )
  })

  it('names a node of one family only, one behind a router, one whose range is a route of the node', () => {
    const ids = (peer: typeof two, routes = base) => plan(routes, [peer]).problems.map(({ id }) => id)
    expect(ids({ ...two, addresses: ['192.0.2.2'] })).toEqual(['NoInternalIP'])
    expect(ids({ ...two, ranges: ['10.0.2.0/24'], addresses: ['198.51.100.2'] })).toEqual(['NotOnSegment'])
    expect(ids({ ...two, ranges: ['10.0.2.0/24'] }, [...base, via('10.0.2.0/24', '192.0.2.7', 4)])).toEqual([
      'ForeignRoute',
    ])
    const [ofOwnPods] = plan([...base, link('10.0.2.0/24', 'cni1')], [{ ...two, ranges: ['10.0.2.0/24'] }]).problems
    expect(ofOwnPods).toMatchObject({ id: 'ForeignRoute', text: expect.stringContaining('cni1: drain this node') })
    // Its metric is larger: ours is the one that counts.
    expect(ids({ ...two, ranges: ['10.0.2.0/24'] }, [...base, via('10.0.2.0/24', '192.0.2.7', 4, 500)])).toEqual([])
    // A person's route of IPv6 has 1024 by itself.
    const six = { ...two, ranges: ['fd00:2::/64'] }
    expect(ids(six, [...base, via('fd00:2::/64', '2001:db8::7', 3, 1024)])).toEqual(['ForeignRoute'])
    expect(ids(six, [...base, link('fd00:2::/64', 'cni1', 256)])).toEqual([])
  })

  it('takes a range in a subnet of the node, of the peer and its own', () => {
    const nodes = [via('0.0.0.0/0', '10.0.0.254', 3), link('10.0.0.0/8', 'eth0')]
    const peer = { name: 'two', ranges: ['10.244.2.0/24'], addresses: ['10.0.0.2'] }
    const { problems, changes } = plan(nodes, [peer], { allowOverlap: true, isRouted: true })
    expect(problems).toEqual([])
    expect(routeBatch(changes).split('\n')).toEqual([
      'route replace 10.244.2.0/24 via 10.0.0.2 dev eth0 metric 116 proto 116',
      'route replace unreachable 10.0.1.0/24 metric 116 proto 116',
      '',
    ])
  })

  it('has no unreachable route that would win over the one to a subnet of the node', () => {
    const networkd = link('192.0.2.0/24', 'eth0', 1024)
    const advertised = { ...link('2001:db8:1::/64', 'eth1', 256), protocol: 9 }
    const there = [...base, networkd, advertised]
    const unreachable = (range: string, allowOverlap: boolean) =>
      plan(there, [], { isRouted: true, pods: [range], allowOverlap }).wanted
    const apart = ['10.0.1.0/24', '2001:db8:0:1::/64']
    const around = ['192.0.2.0/24', '192.0.0.0/16', '2001:db8::/64', '2001:db8:1::/64', '2001:db8::/32']
    const inside = ['192.0.2.128/25', '2001:db8:0:0:8000::/65']
    expect(apart.map((range) => unreachable(range, false))).toEqual([1, 1])
    expect([...around, ...inside].map((range) => unreachable(range, false))).toEqual([0, 0, 0, 0, 0, 0, 0])
    // There the pods alone have what is inside.
    expect(around.map((range) => unreachable(range, true))).toEqual([0, 0, 0, 0, 0])
    expect(inside.map((range) => unreachable(range, true))).toEqual([1, 1])
    const left = { dst: '192.0.2.0/24', type: 'unreachable', metric: 116, protocol: 116 }
    expect(text([...base, left], [])).toBe('route del 192.0.2.0/24 metric 116 proto 116\n')
    const tunnel = { ...link('10.0.0.0/8', 'wg0'), protocol: 3 }
    expect(plan([...base, tunnel], [], { isRouted: true }).wanted).toBe(1)
  })

  it('goes by the next address of a peer where the kernel has refused the one before', () => {
    const peer = { name: 'two', ranges: ['10.0.2.0/24'], addresses: ['192.0.2.8', '192.0.2.9'] }
    const by = (...refused: string[]) => plan(base, [peer], { refused: new Set(refused) }).changes[0]?.gateway
    expect(by()).toBe('192.0.2.8')
    expect(by('10.0.2.0/24 192.0.2.8')).toBe('192.0.2.9')
    expect(by('10.0.3.0/24 192.0.2.8')).toBe('192.0.2.8')
    // It may do by now.
    expect(by('10.0.2.0/24 192.0.2.8', '10.0.2.0/24 192.0.2.9')).toBe('192.0.2.8')
  })

  it('tells the addresses and subnets of this node', () => {
    const routes = [
      ...base,
      { ...link('192.0.2.0/24', 'eth0'), source: '192.0.2.1' },
      link('10.0.1.5/32', 'veth1'),
      link('fe80::/64', 'eth0'),
      link('10.0.1.0/24', 'cni0'),
      { ...link('198.18.0.0/15', 'wg0'), protocol: 3 },
      { ...link('fd00:9::/48', 'lo'), type: 'unreachable' },
    ]
    expect(hereByRoutes([...routes, own('10.0.2.0/24', '192.0.2.2')])).toEqual({
      addresses: ['192.0.2.1'],
      subnets: [
        { dst: '192.0.2.0/24', dev: 'eth0', isOfLink: true },
        { dst: '2001:db8::/64', dev: 'eth0', isOfLink: true },
        { dst: '198.18.0.0/15', dev: 'wg0', isOfLink: false },
      ],
    })
  })

  it('does not take the pods of this node for a subnet in the way', () => {
    expect(plan([...base, link('10.0.1.0/24', 'cni0'), link('10.0.1.5/32', 'veth1')]).problems).toEqual([])
  })

  it('in ptp mode has an unreachable route for the own range', () => {
    const { changes } = plan(base, [], { isRouted: true })
    expect(routeBatch(changes)).toBe('route replace unreachable 10.0.1.0/24 metric 116 proto 116\n')
    const there = { dst: '10.0.1.0/24', type: 'unreachable', metric: 116, protocol: 116 }
    expect(plan([...base, there], [], { isRouted: true }).changes).toEqual([])
    expect(routeBatch(plan([...base, there], []).changes)).toBe('route del 10.0.1.0/24 metric 116 proto 116\n')
  })

  it('never changes a route of another protocol, whatever is there', () => {
    const some = fc.record({
      dst: fc.constantFrom('10.0.2.0/24', '10.0.3.0/24', '10.0.1.0/24', '0.0.0.0/0', '192.0.2.0/24', 'fd00:2::/64'),
      type: fc.constantFrom('unicast', 'unreachable'),
      dev: fc.constantFrom('eth0', 'eth1'),
      metric: fc.constantFrom(0, 116, 1024),
      protocol: fc.constantFrom(2, 3, 4, 116),
    })
    fc.assert(
      fc.property(fc.array(some), (routes) => {
        for (const { verb, dst } of plan([...base, ...routes]).changes) {
          const same = routes.filter((route) => route.dst === dst)
          // `ip route replace` and `del` go by destination and metric.
          if (verb === 'del') expect(same.some(({ protocol }) => protocol === 116)).toBe(true)
          else expect(same.some(({ protocol, metric }) => protocol !== 116 && metric === 116)).toBe(false)
        }
      }),
    )
  })
})

describe('what ip prints', () => {
  it('is read for both families, the main table alone', () => {
    const lines = [
      '[{"dst":"default","gateway":"192.0.2.254","dev":"eth0","flags":[]},{"type":"7","dst":"10.0.1.0/24","protocol":"116","metric":116,"flags":[]}]',
      '[{"dst":"default","gateway":"fe80::1","dev":"eth0","metric":1024,"flags":[],"pref":"0"},{"type":"2","dst":"::1","dev":"lo","table":"255","metric":0,"flags":[],"pref":"0"}]',
    ]
    expect(readNodeRoutes(lines.join('\n'))).toEqual([
      { dst: '0.0.0.0/0', type: 'unicast', gateway: '192.0.2.254', dev: 'eth0', metric: 0, protocol: 0 },
      { dst: '10.0.1.0/24', type: 'unreachable', metric: 116, protocol: 116 },
      { dst: '::/0', type: 'unicast', gateway: 'fe80::1', dev: 'eth0', metric: 1024, protocol: 0 },
    ])
  })

  it('names the changes that failed by their lines', () => {
    const { changes } = plan(base)
    const stderr = 'RTNETLINK answers: Network is unreachable\nCommand failed -:2\n'
    expect(refusedRoutes(changes, stderr)).toEqual([[changes[1], 'RTNETLINK answers: Network is unreachable']])
    expect(refusedRoutes(changes, '')).toEqual([])
  })
})
