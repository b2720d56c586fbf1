// SPDX-License-Identifier: Apache-2.0
// firewall: what is read, ingressPolicy as elements of two sets, and what other firewalls are asked to let pass.

import { describe, expect, it } from 'vitest'
import type { FirewallConf } from '../../../src/config/network-conf.ts'
import type { NetworkSpec } from '../../../src/drivers/spec.ts'
import { acceptElements, isolation, policyElements } from '../../../src/features/firewall.ts'
import { errorOf, type Json, lineOf, read, specOf } from '../call.ts'

describe('the keys', () => {
  it.each<[Json | undefined, FirewallConf | undefined]>([
    [undefined, undefined],
    [{}, { hostAccept: true }],
    [{ ingressPolicy: '' }, { hostAccept: true }],
    [{ ingressPolicy: 'open' }, { hostAccept: true }],
    [
      { ingressPolicy: 'isolated', hostAccept: 'off' },
      { ingressPolicy: 'isolated', hostAccept: false },
    ],
    [{ hostAccept: 'auto', firewalldZone: '', backend: 'typo' }, { hostAccept: true }],
  ])('%j', (firewall, expected) => {
    expect(read({ firewall }).firewall).toEqual(expected)
  })

  it.each<[Json, string]>([
    [{ ingressPolicy: 'closed' }, 'ingressPolicy: "closed" is not one of "", "open", "same-bridge", "isolated"'],
    [{ hostAccept: 'established' }, 'hostAccept: "established" is not one of "auto", "off"'],
  ])('%j is refused', (firewall, message) => {
    expect(lineOf(errorOf(() => read({ firewall })))).toBe(`(7) firewall.${message}`)
  })
})

const pool = { ipam: { type: 'host-local', ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00:1::/64' }]] } }

function networkOf(ingressPolicy: string, more: Json = {}): NetworkSpec {
  const { network } = specOf({ ...pool, firewall: { ingressPolicy }, ...more })
  if (network === undefined) throw new Error('no network')
  return network
}

describe('ingressPolicy', () => {
  const fenced = (...links: readonly string[]) => links.map((link) => ({ set: 'fenced', key: [link] }))
  const pair = (from: string, to: string) => ({ set: 'fencedpair', key: [from, to] })

  it.each<[string, readonly NetworkSpec[], readonly object[]]>([
    ['open', [networkOf('open')], []],
    ['same-bridge: fenced, and open to itself', [networkOf('same-bridge')], [...fenced('cni0'), pair('cni0', 'cni0')]],
    ['isolated, from itself too', [networkOf('isolated')], fenced('cni0')],
    [
      'on a VLAN packets come by the bridge, and by its link in the VLAN',
      [networkOf('same-bridge', { vlan: 7, isGateway: true })],
      [
        ...[...fenced('cni0', 'cni0.7'), pair('cni0', 'cni0'), pair('cni0', 'cni0.7')],
        ...[pair('cni0.7', 'cni0'), pair('cni0.7', 'cni0.7')],
      ],
    ],
    [
      'isolated on a VLAN: a frame to the gateway is bridged',
      [networkOf('isolated', { vlan: 7, isGateway: true })],
      [...fenced('cni0', 'cni0.7'), pair('cni0', 'cni0')],
    ],
    [
      'isolated beside same-bridge on one bridge',
      [networkOf('same-bridge'), networkOf('isolated', { name: 'strict' })],
      [...fenced('cni0'), ...fenced('cni0')],
    ],
    [
      'isolated on another bridge',
      [networkOf('same-bridge'), networkOf('isolated', { bridge: 'br7' })],
      [...fenced('cni0'), pair('cni0', 'cni0'), ...fenced('br7')],
    ],
  ])('%s', (_, networks, elements) => {
    expect(policyElements(networks)).toEqual(elements)
  })

  it('isolated holds between the ports of the bridge as well', () => {
    const portOf = (ingressPolicy: string) => specOf({ firewall: { ingressPolicy } }).port?.isolated
    expect(['isolated', 'same-bridge', 'open'].map(portOf)).toEqual([true, false, false])
  })

  it('of a pod with a link of its own is that link, which reaches itself alone', () => {
    const spec = specOf({ ...pool, mode: 'ptp', firewall: { ingressPolicy: 'same-bridge' } })
    const link = spec.host?.name ?? ''
    expect(isolation.elements?.(spec)).toEqual([...fenced(link), pair(link, link)])
  })
})

describe('hostAccept', () => {
  const textsOf = (networks: readonly NetworkSpec[]) =>
    acceptElements(networks).map(({ set, key }) => `${set} ${key.join(' ')}`)

  it('is the bridge, and new connections from the network and from nonMasqueradeCIDRs', () => {
    expect(textsOf([networkOf('open', { nonMasqueradeCIDRs: ['192.0.2.7/32', 'fd00::/8'] })])).toEqual([
      'acceptlinks cni0',
      'acceptnew4 10.1.0.0/24 10.1.0.0/24',
      'acceptnew4 10.1.0.0/24 192.0.2.7',
      'acceptnew6 fd00:1::/64 fd00::/8',
    ])
  })

  it('is the subnets of routed pods', () => {
    expect(textsOf([networkOf('open', { mode: 'ptp' })]).slice(0, 2)).toEqual([
      'acceptnet4 10.1.0.0/24',
      'acceptnet6 fd00:1::/64',
    ])
  })

  it.each<Json>([{ firewall: undefined }, { firewall: { hostAccept: 'off' } }])('is nothing with %j', (more) => {
    expect(textsOf([networkOf('open', more)])).toEqual([])
  })
})
