// SPDX-License-Identifier: Apache-2.0
// ingressPolicy as elements of the two sets that the rule compares.

import { describe, expect, it } from 'vitest'
import { isolationElements } from '../../../src-before/features/firewall.ts'
import { specsOf } from '../../support/golden.ts'
import { type Json, read } from '../cni/call.ts'

const isolated = { set: 'fenced', key: ['cni0'] }
const exempt = { set: 'fencedpair', key: ['cni0', 'cni0'] }

it.each<[string, Json, readonly object[]]>([
  ['open', { firewall: { ingressPolicy: 'open' } }, []],
  ['open by default', { firewall: {} }, []],
  ['open without firewall', {}, []],
  ['same-bridge: isolated, and open to itself', { firewall: { ingressPolicy: 'same-bridge' } }, [isolated, exempt]],
  ['isolated, from itself too', { firewall: { ingressPolicy: 'isolated' } }, [isolated]],
])('%s', (_, conf, elements) => {
  const { network } = specsOf(read(conf), { ips: [], routes: [] })
  expect(isolationElements(network)).toEqual(elements)
})

it('isolated holds between the ports of the bridge as well', () => {
  const portOf = (ingressPolicy: string) =>
    specsOf(read({ firewall: { ingressPolicy } }), { ips: [], routes: [] }).spec.port?.isolated
  expect([portOf('isolated'), portOf('same-bridge'), portOf('open')]).toEqual([true, false, false])
})

describe('on a VLAN', () => {
  const fenced = (...links: readonly string[]) => links.map((link) => ({ set: 'fenced', key: [link] }))
  const pair = (from: string, to: string) => ({ set: 'fencedpair', key: [from, to] })
  const networkOf = (ingressPolicy: string, vlan: number) =>
    specsOf(read({ isGateway: true, name: `n${vlan}`, firewall: { ingressPolicy }, vlan }), { ips: [], routes: [] })
      .network

  it('packets come by the bridge, and by its link in the VLAN', () => {
    expect(isolationElements(networkOf('same-bridge', 7))).toEqual([
      ...fenced('cni0', 'cni0.7'),
      ...[pair('cni0', 'cni0'), pair('cni0', 'cni0.7'), pair('cni0.7', 'cni0'), pair('cni0.7', 'cni0.7')],
    ])
  })

  it('isolated leaves the bridged way to the gateway', () => {
    const strict = networkOf('isolated', 7)
    expect(isolationElements(strict)).toEqual([...fenced('cni0', 'cni0.7'), pair('cni0', 'cni0')])
    const [weak, untagged] = [networkOf('same-bridge', 8), networkOf('isolated', 0)]
    expect(isolationElements(weak, [weak, strict])).toEqual(isolationElements(weak))
    expect(isolationElements(strict, [strict, untagged])).toEqual(fenced('cni0', 'cni0.7'))
  })
})

it('isolated holds on its bridge beside a network that is same-bridge, not on another bridge', () => {
  const networkOf = (ingressPolicy: string, more: Json = {}) =>
    specsOf(read({ firewall: { ingressPolicy }, ...more }), { ips: [], routes: [] }).network
  const [weak, strict] = [networkOf('same-bridge'), networkOf('isolated', { name: 'strict' })]
  expect(isolationElements(weak, [weak, strict])).toEqual([isolated])
  expect(isolationElements(weak, [weak, networkOf('isolated', { bridge: 'br7' })])).toEqual([isolated, exempt])
  // A chained network on the bridge of a main one.
  const { bridge: _, ...rest } = weak
  const chained = { ...rest, ingressPolicyLink: 'cni0' }
  expect(isolationElements(chained, [chained, strict])).toEqual([isolated])
})

it('is the foreign bridge that a chained network is on, where it has none of its own', () => {
  const network = {
    name: 'n',
    forwarding: [],
    removeWhenEmpty: false,
    ingressPolicy: 'isolated',
    ingressPolicyLink: 'br9',
  } as const
  expect(isolationElements(network)).toEqual([{ set: 'fenced', key: ['br9'] }])
})
