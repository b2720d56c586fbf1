// SPDX-License-Identifier: Apache-2.0
// Whatever the Nodes of a cluster say, each address has one way, and no way leads back to this node or into a range.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  type Cidr,
  formatCidr,
  hostCidr,
  includes,
  overlaps,
  parseAddress,
  parseCidr,
} from '../../../../src-before/cni/address.ts'
import { clusterView } from '../../../../src-before/plan/agent/cluster-view.ts'
import {
  hereByRoutes,
  type NodeRoute,
  planRoutes,
  routeMetric,
  routeProtocol,
  routesAfter,
} from '../../../../src-before/plan/agent/routes.ts'

const link = { type: 'unicast', dev: 'eth0', metric: 0, protocol: 2 } as const
const ownAddresses = ['192.0.2.1', '2001:db8::1']
const connected: readonly NodeRoute[] = [
  { ...link, dst: '192.0.2.0/24', source: '192.0.2.1' },
  { ...link, dst: '2001:db8::/64', metric: 256 },
  { ...link, dst: '0.0.0.0/0', gateway: '192.0.2.254', protocol: 3 },
]

const soundRange = fc.oneof(
  fc.tuple(fc.nat(7), fc.constantFrom(22, 23, 24, 25)).map(([third, length]) => around(`10.0.${third}.0`, length)),
  fc.tuple(fc.nat(7), fc.constantFrom(62, 63, 64)).map(([group, length]) => around(`fd00:0:0:${group}::`, length)),
)
const range = fc.oneof(
  { weight: 6, arbitrary: soundRange },
  fc.constantFrom('10.0.0.0/8', '0.0.0.0/0', '::/0', '::ffff:10.0.1.0/120', '10.0.1.1/24', 'x', '10.0.1.0/32'),
  fc.constantFrom('192.0.2.0/24', '192.0.2.128/25', '192.0.2.1/32', '2001:db8::/64', 'fe80::/64', '198.51.100.0/24'),
)
const address = fc.oneof(
  { weight: 3, arbitrary: fc.tuple(fc.constantFrom('192.0.2.', '2001:db8::'), fc.integer({ min: 1, max: 6 })) },
  fc.constantFrom(['192.0.2.0'], ['192.0.2.255'], ['10.0.1.1'], ['10.0.5.9'], ['fd00::1'], ['fd00:0:0:5::1']),
  fc.constantFrom(['127.0.0.1'], ['169.254.1.1'], ['fe80::1'], ['::1'], ['0.0.0.0'], ['203.0.113.7'], ['x']),
)
const names = fc.constantFrom<string[]>('self', 'a', 'b', 'c', 'd')
const addresses = fc.array(
  address.map((parts) => parts.join('')),
  { maxLength: 3 },
)
const node = fc.record({
  name: names,
  uid: fc.constant<string>(''),
  created: fc.constantFrom<string[]>('2024', '2025'),
  podCidrs: fc.array(range, { maxLength: 3 }),
  addresses,
})
const peer = fc.record({ name: names, ranges: fc.array(soundRange, { maxLength: 2 }), addresses })
const route = fc.oneof(
  soundRange.map((dst): NodeRoute => {
    const [gateway, metric] = [dst.includes(':') ? '2001:db8::9' : '192.0.2.9', routeMetric]
    return { type: 'unicast', dst, gateway, dev: 'eth0', metric, protocol: routeProtocol }
  }),
  soundRange.map((dst): NodeRoute => ({ ...link, dst, dev: 'cni0' })),
)

const cluster = fc.record({
  nodes: fc.uniqueArray(node, { minLength: 1, maxLength: 5, selector: ({ name }) => name }),
  remembered: fc.uniqueArray(peer, { maxLength: 3, selector: ({ name }) => name }),
  earlierPods: fc.array(soundRange, { maxLength: 2 }),
  bounds: fc.constantFrom<string[][]>([], ['10.0.0.0/22', 'fd00::/62'], ['10.0.0.0/8']),
  allowOverlap: fc.boolean(),
  isRouted: fc.boolean(),
  table: fc.uniqueArray(route, { maxLength: 3, selector: ({ dst, protocol }) => `${dst} ${protocol}` }),
})

type Cluster = typeof cluster extends fc.Arbitrary<infer T> ? T : never
const plain = { remembered: [], earlierPods: [], bounds: [], allowOverlap: false, isRouted: false, table: [] }
const nodeOf = (name: string, podCidrs: string[], listed: string[] = []) => {
  return { name, uid: '', created: '2024', podCidrs, addresses: listed }
}

/** Those in which a fault was found: a subnet around pods, and a range of ours that is earlier and second. */
const found: [Cluster][] = [
  [{ ...plain, nodes: [nodeOf('self', ['192.0.2.128/25']), nodeOf('d', ['10.0.0.0/22'], ['192.0.2.0'])] }],
  [
    {
      ...plain,
      nodes: [nodeOf('d', ['10.0.4.0/24']), nodeOf('self', ['10.0.6.0/24', '10.0.4.0/22'])],
      earlierPods: ['10.0.4.0/22'],
    },
  ],
]

it('each address has one way, in the bounds, by an address of the peer that is on a link', () => {
  const seen = { routes: 0, peers: 0 }
  fc.assert(
    fc.property(cluster, ({ nodes, table, isRouted, ...more }) => {
      const routes = [...connected, ...table]
      const { subnets, addresses: known } = hereByRoutes(routes)
      const here = { addresses: [...new Set([...ownAddresses, ...known])], subnets }
      const bounds = more.bounds.map(toCidr)
      const { own, pods, peers } = clusterView({ ...more, bounds, self: 'self', nodes, here })
      const theirs = peers.flatMap(({ ranges }) => ranges)
      expectApart([...pods, ...theirs])
      expect(new Set(own.map((text) => text.includes(':'))).size).toBe(own.length)
      expect(own.every((text) => pods.includes(text))).toBe(true)
      if (bounds.length > 0) expect(theirs.filter((text) => !bounds.some((bound) => isIn(text, bound)))).toEqual([])

      const facts = { self: 'self', peers, pods, isRouted, allowOverlap: more.allowOverlap, refused: new Set<string>() }
      const after = routesAfter(routes, planRoutes({ ...facts, routes }).changes)
      const made = after.filter(({ protocol }) => protocol === routeProtocol)
      expectApart(made.map(({ dst }) => dst))
      for (const { dst, gateway } of made) {
        if (gateway === undefined) {
          expect(pods).toContain(dst)
          expect(subnets.filter(({ dst: subnet }) => isIn(subnet, toCidr(dst)))).toEqual([])
          if (!more.allowOverlap) expect(subnets.filter(({ dst: subnet }) => isIn(dst, toCidr(subnet)))).toEqual([])
          continue
        }
        expect(peers.find(({ ranges }) => ranges.includes(dst))?.addresses).toContain(gateway)
        expect(here.addresses).not.toContain(gateway)
        expect(['192.0.2.0', '192.0.2.255']).not.toContain(gateway)
        expect(subnets.some(({ dst: subnet }) => isIn(gateway, toCidr(subnet)))).toBe(true)
        expect(made.filter((other) => isIn(gateway, toCidr(other.dst)))).toEqual([])
        const self = nodes.find(({ name }) => name === 'self')?.addresses ?? []
        expect(self.filter((each) => ownAddresses.includes(each) && isIn(each, toCidr(dst)))).toEqual([])
      }
      expect(planRoutes({ ...facts, routes: after }).changes).toEqual([])
      seen.routes += made.length
      seen.peers += peers.length
    }),
    { numRuns: 2000, examples: found },
  )
  // A generator of nothing but refusals would prove nothing.
  expect(seen.routes).toBeGreaterThan(1000)
  expect(seen.peers).toBeGreaterThan(2000)
})

function around(text: string, length: number): string {
  const { family, value } = toCidr(text)
  const host = BigInt((family === 4 ? 32 : 128) - length)
  return formatCidr({ family, value: (value >> host) << host, prefixLength: length })
}

function toCidr(text: string): Cidr {
  const single = parseAddress(text)
  const cidr = single === undefined ? parseCidr(text) : hostCidr(single)
  if (cidr === undefined) throw new TypeError(text)
  return cidr
}

function isIn(text: string, whole: Cidr): boolean {
  const cidr = toCidr(text)
  return cidr.prefixLength >= whole.prefixLength && includes(whole, cidr)
}

function expectApart(texts: readonly string[]): void {
  const cidrs = texts.map(toCidr)
  const both = cidrs.flatMap((one, at) => cidrs.slice(at + 1).filter((other) => overlaps(one, other)))
  expect(both.map(formatCidr), texts.join()).toEqual([])
}
