// SPDX-License-Identifier: Apache-2.0
// Whatever the Nodes of a cluster say, each address has one way, and no way leads back to this node or into a range.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { includes, isWithin, overlaps, type Range } from '../../../src/agent/node-ranges.ts'
import { readNode } from '../../../src/agent/nodes.ts'
import { type KernelRoute, planRoutes, routeProtocol } from '../../../src/agent/routes.ts'
import {
  address,
  base,
  changed,
  decide,
  encapsulated,
  link,
  node,
  ours,
  range,
  self,
  texts,
  via,
  ways,
} from './cluster-facts.ts'

const ownAddresses = ['192.0.2.1', '2001:db8::1']

const soundRange = fc.oneof(
  fc
    .tuple(fc.nat(7), fc.constantFrom(22, 23, 24, 25))
    .map(([third, length]) => range(`10.0.${third}.0/${length}`).text),
  fc
    .tuple(fc.nat(7), fc.constantFrom(62, 63, 64))
    .map(([group, length]) => range(`fd00:0:0:${group}::/${length}`).text),
)
const anyRange = fc.oneof(
  { weight: 6, arbitrary: soundRange },
  fc.constantFrom('10.0.0.0/8', '0.0.0.0/0', '::/0', '10.0.1.1/24', 'x', '10.0.1.0/32', '198.51.100.0/24', 'fe80::/64'),
  fc.constantFrom('192.0.2.0/24', '192.0.2.128/25', '192.0.2.1/32', '2001:db8::/64', '203.0.113.0/24'),
)
const anyAddress = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 6 }).map((last) => `192.0.2.${last}`) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 6 }).map((last) => `2001:db8::${last}`) },
  fc.constantFrom('192.0.2.0', '192.0.2.255', '10.0.1.1', '10.0.5.9', 'fd00::1', 'fd00:0:0:5::1', '203.0.113.7'),
  fc.constantFrom('127.0.0.1', '169.254.1.1', 'fe80::1', '::1', '0.0.0.0', '198.18.0.7', '2001:db8:9::7', 'x'),
)
const nodes = fc
  .uniqueArray(
    fc.record({
      name: fc.constantFrom('self', 'a', 'b', 'c', 'd'),
      created: fc.constantFrom('2024', '2025'),
      ranges: fc.array(anyRange, { maxLength: 3 }),
      addresses: fc.array(anyAddress, { maxLength: 3 }),
      subnets: fc.constantFrom(undefined, undefined, '192.0.2.0/24 2001:db8::/64', '203.0.113.0/24', 'x'),
    }),
    { minLength: 1, maxLength: 5, selector: ({ name }) => name },
  )
  .map((all) =>
    all.map(({ name, ranges, addresses, created, subnets }) =>
      node(name, ranges, addresses, { created, ...(subnets === undefined ? {} : { subnets }) }),
    ),
  )
const route = fc.oneof(
  soundRange.map((text) => ours(text, text.includes(':') ? '2001:db8::2' : '192.0.2.2')),
  soundRange.map((text) => encapsulated(text, '198.18.0.7')),
  soundRange.map((text) => link(text, 'cni0')),
  fc.constant(via('10.0.0.0/16', '192.0.2.254')),
)
const cluster = fc.record({
  nodes,
  routes: fc
    .uniqueArray(route, { maxLength: 3, selector: ({ range: { text }, protocol }) => `${text} ${protocol}` })
    .map((more) => [...base, ...more]),
  earlier: fc.array(soundRange, { maxLength: 2 }),
  bounds: fc.constantFrom<string[][]>([], ['10.0.0.0/22', 'fd00::/62'], ['10.0.0.0/8']),
  when: fc.constantFrom('auto', 'auto', 'never', 'always'),
  allowOverlap: fc.boolean(),
  isRouted: fc.boolean(),
  isCloudRouted: fc.constantFrom(false, false, false, true),
})

function expectApart(all: readonly Range[]): void {
  const both = all.flatMap((one, at) => all.slice(at + 1).filter((other) => overlaps(one, other)))
  expect(texts(both), texts(all).join()).toEqual([])
}

describe('whatever the Nodes say', () => {
  it('each address has one way, in the bounds, to an address of the node that has the range', () => {
    const seen = { gateway: 0, overlay: 0, unreachable: 0, kept: 0 }
    fc.assert(
      fc.property(cluster, ({ nodes, routes, ...given }) => {
        const decision = decide(nodes, { routes, addresses: ownAddresses, ...given })
        const { own, peers, wanted } = decision
        const theirs = peers.flatMap(({ ranges }) => ranges)
        const bounds = given.bounds.map(range)
        expectApart([...own, ...theirs])
        expect(new Set(own.map(({ family }) => family)).size).toBe(own.length)
        for (const each of bounds.length === 0 ? [] : theirs)
          expect(
            bounds.some((bound) => isWithin(each, bound)),
            each.text,
          ).toBe(true)
        if (given.isCloudRouted) expect(wanted).toEqual([])

        const out = wanted.filter(({ isUnicast }) => isUnicast)
        expectApart(out.map((each) => each.range))
        const ownUnreachable = own.filter(({ text }) => ways(decision).includes(`unreachable ${text}`))
        for (const { range: to, isUnicast, gateway, remote } of wanted) {
          const kind = remote === undefined ? (isUnicast ? 'gateway' : 'unreachable') : 'overlay'
          seen[kind] += 1
          if (kind === 'unreachable') {
            expect([...texts(own), ...given.earlier]).toContain(to.text)
            continue
          }
          const peer = peers.find(({ ranges }) => ranges.includes(to))
          const next = address(remote ?? gateway ?? '')
          expect(texts(peer?.addresses ?? [])).toContain(next.text)
          expect([...ownAddresses, '192.0.2.0', '192.0.2.255']).not.toContain(next.text)
          // No packet on its way to a node is one for a pod.
          const ofPods = [...out.map((each) => each.range), ...ownUnreachable]
          expect(texts(ofPods.filter((each) => includes(each, next)))).toEqual([])
          expect(ownAddresses.filter((text) => includes(to, address(text)))).toEqual([])
          if (kind === 'gateway') expect(base.some((route) => !route.gateway && includes(route.range, next))).toBe(true)
          expect(given.when === (kind === 'gateway' ? 'always' : 'never')).toBe(false)
        }

        const { kept } = decision
        seen.kept += kept.size
        for (const { range: left } of kept)
          expect(texts([...own, ...theirs].filter((other) => overlaps(other, left))), left.text).toEqual([])
        const after = changed(routes, planRoutes(routes, wanted, kept))
        expect(planRoutes(after, wanted, kept)).toEqual([])
        const others = (all: readonly KernelRoute[]) => all.filter(({ protocol }) => protocol !== routeProtocol)
        expect(others(after)).toEqual(others(routes))
        // Our own routes change no decision.
        expect(decide(nodes, { routes: after, addresses: ownAddresses, ...given })).toEqual(decision)
      }),
      { numRuns: 1000 },
    )
    // A generator of nothing but refusals would prove nothing.
    for (const [kind, count] of Object.entries(seen)) expect(count, kind).toBeGreaterThan(30)
  })

  it('the decision is the same in whatever order they come', () => {
    fc.assert(
      fc.property(nodes, fc.integer(), (all, seed) => {
        const order = ({ name }: { readonly name: string }) => (name.charCodeAt(0) * seed) % 7
        expect(decide([...all].sort((a, b) => order(a) - order(b)))).toEqual(decide(all))
      }),
    )
  })

  it('any shape inside of a Node is taken for absent', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), fc.jsonValue(), (spec, status, annotations) => {
        const found = readNode({ metadata: { name: 'a', annotations }, spec, status })
        expect(found?.name).toBe('a')
        decide([self, ...(found === undefined ? [] : [found])])
      }),
    )
  })
})

/** A node with an address on each of its segments, of which it lists some, and publishes those. */
const onSegments = (name: string, last: number) =>
  fc
    .uniqueArray(fc.constantFrom(1, 2, 3), { minLength: 1 })
    .chain((segments) => fc.tuple(fc.constant(segments), fc.shuffledSubarray(segments, { minLength: 1 })))
    .map(([segments, listed]) => {
      const subnetOf = (at: number) => `172.16.${at}.0/24`
      const subnets = segments.map(subnetOf)
      const addresses = listed.map((at) => `172.16.${at}.${last}`)
      const found = node(name, [`10.0.${last}.0/24`], addresses, { subnets: listed.map(subnetOf).join(' ') })
      const routes = [via('0.0.0.0/0', '172.16.9.254'), ...subnets.map((text) => link(text, `eth${text[7]}`))]
      return { node: found, given: { self: name, routes, addresses } }
    })

it('both of two nodes take a link, or both the overlay, once both have published their subnets', () => {
  const seen = { via: 0, encap: 0 }
  fc.assert(
    fc.property(onSegments('a', 1), onSegments('b', 2), (a, b) => {
      const kinds = [a, b].map(({ given }) => ways(decide([a.node, b.node], given))[0]?.split(' ')[1])
      expect(kinds[0]).toBe(kinds[1])
      seen[kinds[0] as 'via' | 'encap'] += 1
    }),
  )
  expect(Math.min(seen.via, seen.encap)).toBeGreaterThan(3)
})
