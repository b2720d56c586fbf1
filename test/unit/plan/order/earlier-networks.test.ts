// SPDX-License-Identifier: Apache-2.0
// What pods of an earlier configuration still need, beside the one of today.

import { describe, expect, it } from 'vitest'
import type { NetworkSpec } from '../../../../src-before/model/attachment.ts'
import { acceptingAll, asEarlier, earlierNetworks } from '../../../../src-before/plan/order/earlier-networks.ts'
import { specsOf } from '../../../support/golden.ts'
import { type Json, read } from '../../cni/call.ts'

const networkOf = (conf: Json): NetworkSpec => specsOf(read(conf), { ips: [], routes: [] }).network
const small = networkOf({ podcidr: '10.1.0.0/24' })
const wide = networkOf({ podcidr: '10.1.0.0/23' })
const moved = networkOf({ podcidr: '10.2.0.0/24', bridge: 'br7' })

describe('earlierNetworks', () => {
  it.each<[string, NetworkSpec, readonly NetworkSpec[]]>([
    ['the same', small, [small, small]],
    ['a range that has grown', wide, [small]],
    ['nothing of a network that is gone', { ...moved, name: 'other' }, [small]],
    ['what is learnt from pods', { ...small, forwarding: [4, 6] }, [small]],
  ])('nothing is left of %s', (_, now, made) => {
    expect(earlierNetworks([now], made)).toEqual([])
  })

  it('a range that has moved, with its bridge and what it does not masquerade', () => {
    const [part, ...more] = earlierNetworks([moved], [small, small])
    expect(part?.bridge).toEqual(small.bridge)
    expect(part?.masquerade).toEqual({ subnets: ['10.1.0.0/24'], noMasquerade: ['10.1.0.0/24', '10.2.0.0/24'] })
    expect(part?.hairpin).toEqual(['10.1.0.0/24'])
    expect(more).toEqual([])
  })

  it('of a bridge that got another name its hairpin, with no subnet that is not of today', () => {
    const [part] = earlierNetworks([networkOf({ podcidr: '10.1.0.0/24', bridge: 'br7' })], [small])
    expect(part).toMatchObject({ bridge: { name: 'cni0' }, hairpin: [] })
  })

  it('of a range that has shrunk the rest, apart from that of today and from other networks', () => {
    const other = networkOf({ name: 'other', podcidr: '10.1.1.0/25' })
    const [part] = earlierNetworks([small, other], [wide])
    expect(part?.bridge).toBeUndefined()
    expect(part?.masquerade?.subnets).toEqual(['10.1.1.128/25'])
  })

  it('nothing that is switched off today', () => {
    const old = networkOf({ podcidr: '10.1.0.0/24', firewall: { ingressPolicy: 'isolated' } })
    const [part] = earlierNetworks([networkOf({ podcidr: '10.1.0.0/16', bridge: 'br7', ipMasq: false })], [old])
    expect(part).toMatchObject({ bridge: { name: 'cni0' } })
    for (const each of [part?.masquerade, part?.hairpin, part?.ingressPolicy, part?.acceptSubnets])
      expect(each).toBeUndefined()
  })

  it('all, where today is another network under the same name: another bridge, another range', () => {
    const old = networkOf({ podcidr: '10.1.0.0/24', firewall: { ingressPolicy: 'isolated' } })
    const now = networkOf({ podcidr: '10.2.0.0/24', bridge: 'br7', ipMasq: false })
    const [part] = earlierNetworks([now], [old])
    expect(part).toMatchObject({
      masquerade: { subnets: ['10.1.0.0/24'] },
      ingressPolicy: 'isolated',
      acceptSubnets: ['cni0'],
    })
  })

  it.each([
    [
      'a bridge network, macvlan',
      small,
      { mode: 'macvlan', master: 'eth0', ipam: { type: 'host-local', subnet: '10.1.0.0/24' } },
    ],
    ['a bridge network, layer 2 on another bridge', small, { podcidr: undefined, bridge: 'br7' }],
    [
      'a routed network, macvlan',
      networkOf({ mode: 'ptp', podcidr: '10.1.0.0/24' }),
      { mode: 'macvlan', master: 'eth0' },
    ],
    [
      'a routed network, a bridge',
      networkOf({ mode: 'ptp', podcidr: '10.1.0.0/24' }),
      { podcidr: '10.2.0.0/24', ipMasq: false },
    ],
  ])('what %s does not read or say: the masquerade', (_, old, now) => {
    const [part] = earlierNetworks([networkOf(now)], [old])
    expect(part).toMatchObject({ masquerade: { subnets: ['10.1.0.0/24'] } })
  })

  it('nothing of a bridge or of links where ipMasq was switched off in its place', () => {
    const routed = (more: Json) => networkOf({ mode: 'ptp', podcidr: '10.1.0.0/24', ...more })
    expect(
      earlierNetworks([routed({ ipMasq: false, podcidr: '10.2.0.0/24' })], [routed({})])[0]?.masquerade,
    ).toBeUndefined()
    expect(
      earlierNetworks([networkOf({ podcidr: '10.1.0.0/24', isGateway: false, ipMasq: false })], [small])[0]?.masquerade,
    ).toBeUndefined()
  })

  it('the policy of a bridge that is not ours, as long as there is one', () => {
    const on = (bridge: string): NetworkSpec => ({
      ...{ name: 'n/chained', forwarding: [], removeWhenEmpty: false },
      ...{ ingressPolicy: 'same-bridge', ingressPolicyLink: bridge, gatewayLink: `${bridge}.7` },
    })
    const { ingressPolicy: _, ingressPolicyLink: __, ...open } = on('cni9')
    const isolated: NetworkSpec = { ...on('cni8'), ingressPolicy: 'isolated' }
    expect(earlierNetworks([on('cni9')], [on('cni9'), on('cni8'), isolated])).toEqual([on('cni8')])
    expect(earlierNetworks([open], [on('cni8')])).toEqual([])
  })

  it('of two with one bridge the newest; the gateways of another network are beside it', () => {
    const older = networkOf({ podcidr: '10.3.0.0/24' })
    expect(earlierNetworks([moved], [small, older]).map(({ bridge }) => bridge?.addresses)).toEqual([
      ['10.1.0.1/24'],
      undefined,
    ])
    const other = networkOf({ name: 'other', podcidr: '10.4.0.0/24' })
    const others = networkOf({ name: 'other', podcidr: '10.4.0.0/24', bridge: 'br8' })
    expect(earlierNetworks([moved, other], [small])[0]?.bridge).toEqual(small.bridge)
    expect(earlierNetworks([moved, others], [small, other]).map(({ bridge }) => bridge)).toEqual([
      small.bridge,
      other.bridge,
    ])
  })

  it('the IPv6 gateways that are left on a bridge, where IPv4 is kept and where all has moved', () => {
    const dual = (ipv6: string) => networkOf({ podcidr: ['10.1.0.0/24', ipv6] })
    const [now, before, first] = [dual('fd00:3::/64'), dual('fd00:2::/64'), dual('fd00:1::/64')]
    const gatewaysOf = (current: NetworkSpec, made: readonly NetworkSpec[]) =>
      earlierNetworks([current], made).map(({ bridge }) => bridge?.addresses)
    expect(gatewaysOf(now, [now, before, first])).toEqual([['fd00:2::1/64'], ['fd00:1::1/64']])
    expect(gatewaysOf(moved, [before, first])).toEqual([['10.1.0.1/24', 'fd00:2::1/64'], ['fd00:1::1/64']])
  })

  it('gateways of networks without rules, which differ by those alone', () => {
    const routed = (podcidr: string) =>
      networkOf({ podcidr, ipMasq: false, hairpinMode: false, portmap: { snat: false } })
    const [first, second] = [routed('fd00:1::/64'), routed('fd00:2::/64')]
    expect(earlierNetworks([moved], [second, first]).map(({ bridge }) => bridge?.addresses)).toEqual([
      ['fd00:2::1/64'],
      ['fd00:1::1/64'],
    ])
  })
})

describe('what follows', () => {
  it('accepts are those of both bridges', () => {
    const firewall = { ingressPolicy: 'same-bridge' }
    const now = networkOf({ podcidr: '10.2.0.0/24', bridge: 'br7', firewall })
    const earlier = earlierNetworks([now], [networkOf({ podcidr: '10.1.0.0/24', firewall })])
    expect(acceptingAll(now, earlier)).toMatchObject({ acceptSubnets: ['br7', 'cni0'] })
    expect(acceptingAll(now, earlier).hostAccept).toBeUndefined()
    expect(acceptingAll(now, [])).toBe(now)
  })

  it('a gateway that was replaced is missing to its pods; with another prefix length it is not', () => {
    const now = networkOf({ podcidr: '10.2.0.0/24', forceAddress: true })
    expect(asEarlier(now, { made: small, part: undefined, addresses: ['10.1.0.7'] }).bridge?.addresses).toEqual([
      '10.2.0.1/24',
      '10.1.0.1/24',
    ])
    expect(asEarlier(wide, { made: small, part: undefined, addresses: ['10.1.0.7'] })).toBe(wide)
  })

  it('a gateway whose prefix has shrunk is missing to the pods that it leaves out', () => {
    const of = (address: string) => asEarlier(small, { made: wide, part: undefined, addresses: [address] })
    expect(of('10.1.1.7').bridge?.addresses).toEqual(['10.1.0.1/24', '10.1.0.1/23'])
    expect(of('10.1.0.7')).toBe(small)
  })

  it('a gateway on another VLAN of the same bridge is on that link still', () => {
    const vlan = (id: number, podcidr: string) =>
      networkOf({ podcidr, vlan: id, firewall: { ingressPolicy: 'same-bridge' } })
    const [now, made] = [vlan(20, '10.2.0.0/24'), vlan(10, '10.1.0.0/24')]
    const [part] = earlierNetworks([now], [made])
    expect(part).toMatchObject({ bridge: made.bridge, ingressPolicy: 'same-bridge' })
    expect(asEarlier(now, { made, part, addresses: [] }).bridge).toEqual(made.bridge)
  })
})
