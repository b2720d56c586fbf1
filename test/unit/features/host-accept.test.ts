// SPDX-License-Identifier: Apache-2.0
// Whose packets other firewalls are to let pass, from the configuration.

import { describe, expect, it } from 'vitest'
import type { FeatureConf } from '../../../src-before/config/net-conf.ts'
import { acceptChained, acceptElements, acceptMark, acceptOf, mergedAccepts } from '../../../src-before/features/firewall.ts'
import type { NetworkSpec } from '../../../src-before/model/attachment.ts'
import { describeElement } from '../../../src-before/model/op.ts'

const confOf = (more: Partial<FeatureConf>, firewall: object = {}) =>
  ({
    nonMasqueradeCidrs: ['10.0.0.0/8'],
    firewall: { ingressPolicy: 'open', hostAccept: 'auto', ...firewall },
    ...more,
  }) as FeatureConf
const specOf = (more: Partial<NetworkSpec>): NetworkSpec => ({
  name: 'n',
  forwarding: [4],
  removeWhenEmpty: false,
  ...more,
})
const bridged = { hostAccept: 'cni0' }
const subnets = ['10.1.0.0/24', 'fd00:1::/64']

describe('what a configuration asks for', () => {
  it('is its bridge, and new connections from nonMasqueradeCIDRs and acceptFrom', () => {
    expect(
      acceptOf(
        confOf({}, { acceptFrom: ['192.0.2.7/32'], acceptMarkBit: 20, firewalldZone: 'pods' }),
        bridged,
        subnets,
      ),
    ).toEqual({
      hostAccept: 'cni0',
      acceptNew: { to: subnets, from: ['10.0.0.0/8', '192.0.2.7/32'] },
      acceptMarkBit: 20,
      firewalldZone: 'pods',
    })
  })
  it('is the subnets of routed pods, also as long as there are none', () => {
    expect(acceptOf(confOf({}), { acceptSubnets: subnets }, subnets).acceptSubnets).toEqual(subnets)
    expect(acceptOf(confOf({}), { acceptSubnets: [] }, []).acceptSubnets).toEqual([])
  })
  it('is no new connection with established, and nothing with off', () => {
    expect(acceptOf(confOf({}, { hostAccept: 'established' }), bridged, subnets).acceptNew).toBe('none')
    expect(acceptOf(confOf({}, { hostAccept: 'off' }), bridged, subnets)).toEqual({})
  })
  it.each([
    ['a bridge is accepted', { bridge: 'br0', hostLink: 'veth1' }, { hostAccept: 'br0' }],
    ['of a veth on none the subnets', { bridge: undefined, hostLink: 'veth1' }, { acceptSubnets: subnets }],
    ['without a veth nothing', { bridge: undefined, hostLink: undefined }, {}],
  ])('chained, %s', (_, on, accepted) => {
    expect(acceptChained(confOf({}), on, [...subnets, '10.2.0.9/32', 'fd00:2::9/128'])).toMatchObject(accepted)
  })
  it('keeps the subnets that were learnt before, and no source that is configured no more', () => {
    const old = specOf({ acceptSubnets: ['10.2.0.0/24'], acceptNew: { to: ['10.2.0.0/24'], from: ['192.0.2.0/24'] } })
    const now = specOf({ acceptSubnets: [], acceptNew: { to: [], from: ['10.0.0.0/8'] } })
    expect(mergedAccepts(old, now)).toEqual({
      acceptSubnets: ['10.2.0.0/24'],
      acceptNew: { to: ['10.2.0.0/24'], from: ['10.0.0.0/8'] },
    })
    expect(mergedAccepts(old, specOf({ acceptNew: 'none' })).acceptNew).toBe('none')
  })
})

describe('the elements', () => {
  const texts = (...networks: readonly NetworkSpec[]) =>
    acceptElements(networks).map((element) => `${element.set} ${describeElement(element)}`)
  it('are bridges, subnets, and pairs of a subnet and who may open a connection to it', () => {
    const bridged = specOf({
      hostAccept: 'cni0',
      acceptNew: { to: ['10.1.0.0/24'], from: ['192.0.2.7/32', 'fd00::/8'] },
    })
    const routed = specOf({ name: 'r', acceptSubnets: ['fd00:1::/64'], acceptNew: 'none' })
    expect(texts(bridged, routed)).toEqual([
      'acceptlinks cni0',
      'acceptnet6 fd00:1::/64',
      'acceptnew4 10.1.0.0/24 10.1.0.0/24',
      'acceptnew4 10.1.0.0/24 192.0.2.7',
    ])
  })
})

describe('the mark', () => {
  const asking = (acceptMarkBit?: number) =>
    specOf({ hostAccept: 'cni0', ...(acceptMarkBit !== undefined && { acceptMarkBit }) })
  it('is none of portmap and kube-proxy, and there only where somebody asks', () => {
    expect(acceptMark([specOf({})])).toBeUndefined()
    expect(acceptMark([asking()])).toBe(0x1000)
    expect([0x2000, 0x4000, 0x8000]).not.toContain(acceptMark([asking()]))
  })
  it('is the lowest of those that configurations name, in any order', () => {
    expect(acceptMark([asking(), asking(20), asking(31)])).toBe(2 ** 20)
    expect(acceptMark([asking(31), asking(20), asking()])).toBe(2 ** 20)
  })
})
