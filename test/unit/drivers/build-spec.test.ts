// SPDX-License-Identifier: Apache-2.0
// From a configuration and a lease to specs: gateways, routes, MACs, MTUs of the attachment; bridge,
// masquerade, hairpin and forwarding of the network; two networks as one.

import { describe, expect, it } from 'vitest'
import { mergeNetworks } from '../../../src-before/drivers/specs.ts'
import type { Lease } from '../../../src-before/model/attachment.ts'
import { specsOf } from '../../support/golden.ts'
import { type Json, read } from '../cni/call.ts'

const pool = (subnet: string, more: Json = {}) => ({ ipam: { type: 'host-local', ranges: [[{ subnet }]], ...more } })
const v4 = { address: '10.1.0.2/24', gateway: '10.1.0.1' }
const v6 = { address: 'fd00:1::2/64', gateway: 'fd00:1::1' }
const lease = (ips: Lease['ips'] = [v4], routes: Lease['routes'] = []): Lease => ({ ips, routes })
const attached = (conf: Json, given = lease()) => specsOf(read(conf), given).spec
const networkOf = (conf: Json, given = lease()) => specsOf(read(conf), given).network
const bridged = pool('10.1.0.0/24')
const delegated = { ipam: { type: 'dhcp' } }
const noIps = lease([])

describe('the routes of a pod', () => {
  const default4 = { dst: '0.0.0.0/0', gw: '10.1.0.1' }
  const other4 = { ...default4, gw: '10.1.0.7' }

  it('are those of IPAM; one without gateway goes by the first of its family', () => {
    const routes = [{ dst: '10.9.0.0/16' }, { dst: 'fd09::/16' }, { dst: '10.8.0.0/16', gw: '10.1.0.9' }]
    expect(attached(bridged, lease([v4, v6], routes)).routes).toEqual([
      { dst: '10.9.0.0/16', gw: '10.1.0.1' },
      { dst: 'fd09::/16', gw: 'fd00:1::1' },
      { dst: '10.8.0.0/16', gw: '10.1.0.9' },
    ])
  })

  it.each<[string, Json, Lease, readonly object[]]>([
    ['none by themselves', bridged, lease(), []],
    [
      'one a family with isDefaultGateway',
      { ...bridged, isDefaultGateway: true },
      lease([v4, v6]),
      [default4, { dst: '::/0', gw: 'fd00:1::1' }],
    ],
    [
      'that of IPAM before ours',
      { ...bridged, isDefaultGateway: true },
      lease([v4], [{ dst: '0.0.0.0/0', gw: '10.1.0.7' }]),
      [{ dst: '0.0.0.0/0', gw: '10.1.0.7' }],
    ],
    ['each of several, once', bridged, lease([v4], [default4, other4, default4]), [default4, other4]],
    ['none without a gateway', { ...delegated, isDefaultGateway: false }, lease([{ address: '10.1.0.2/24' }]), []],
  ])('default: %s', (_, conf, given, routes) => expect(attached(conf, given).defaultRoutes).toEqual(routes))

  it('a default route of another metric or table is an ordinary one', () => {
    const metric = { dst: '0.0.0.0/0', gw: '10.1.0.1', priority: 100 }
    const spec = attached(bridged, lease([v4], [metric]))
    expect([spec.routes, spec.defaultRoutes]).toEqual([[metric], []])
  })

  it('are said once', () => {
    const route = { dst: '10.9.0.0/16', gw: '10.1.0.1' }
    expect(attached(bridged, lease([v4], [route, route])).routes).toEqual([route])
  })

  it('of a routed pod reach the gateway by the link and the subnet through it', () => {
    const { routes, port, selfHairpin } = attached({ mode: 'ptp', ipMasq: true, ...bridged })
    expect(routes).toEqual([
      { dst: '10.1.0.1/32', src: '10.1.0.2', scope: 253 },
      { dst: '10.1.0.0/24', gw: '10.1.0.1', src: '10.1.0.2' },
    ])
    expect([port, selfHairpin]).toEqual([undefined, true])
  })
})

describe('addresses and MACs', () => {
  it('an address without gateway gets the first of its subnet where the bridge is the gateway', () => {
    const given = lease([{ address: '10.1.0.2/24' }])
    expect(attached({ ...delegated, isGateway: true }, given).ips).toEqual([v4])
    expect(attached(delegated, given).ips).toEqual([{ address: '10.1.0.2/24' }])
  })

  it('the MAC follows the address from our pool, the attachment with a delegate, and what is asked for', () => {
    const macOf = (conf: Json, given = lease()) => attached(conf, given).pod?.mac
    expect(macOf(bridged)).toBe('0a:58:0a:01:00:02')
    expect(macOf(delegated)).toBe(macOf(delegated, lease([{ address: '10.7.7.7/24' }])))
    expect(macOf({ ...bridged, runtimeConfig: { mac: '0a:00:00:00:00:01' } })).toBe('0a:00:00:00:00:01')
    expect(
      macOf({
        ...bridged,
        runtimeConfig: { mac: '0a:00:00:00:00:01' },
        args: { cni: { mac: '0a:00:00:00:00:03' } },
        tuning: {},
      }),
    ).toBe('0a:00:00:00:00:03')
  })

  it('the pod end alone has the MTU of tuning', () => {
    const spec = attached({ ...bridged, tuning: { mtu: 1400 } })
    expect([spec.mtu, spec.pod?.mtu, spec.host]).toMatchObject([1500, 1400, expect.not.objectContaining({ mtu: 1400 })])
  })

  it('dns of the configuration replaces that of IPAM', () => {
    const given = { ...lease(), dns: { nameservers: ['10.0.0.1'] } }
    expect(attached(bridged, given).dns).toEqual({ nameservers: ['10.0.0.1'] })
    expect(attached({ ...bridged, dns: { nameservers: ['10.0.0.2'] } }, given).dns).toEqual({
      nameservers: ['10.0.0.2'],
    })
  })
})

describe('a network', () => {
  it('of layer 2 is a bridge and nothing else', () => {
    expect(networkOf({}, noIps)).toMatchObject({ forwarding: [], bridge: { addresses: [], vlanFiltering: false } })
    for (const key of ['masquerade', 'hairpin', 'ingressPolicy', 'hostAccept'])
      expect(networkOf({}, noIps)).not.toHaveProperty(key)
  })

  it('with podcidr is gateway, forwards, masquerades and reflects', () => {
    expect(networkOf({ podcidr: ['10.1.0.0/24', 'fd00:1::/64'], nonMasqueradeCIDRs: ['10.0.0.0/8'] })).toMatchObject({
      bridge: { addresses: ['10.1.0.1/24', 'fd00:1::1/64'] },
      forwarding: [4, 6],
      masquerade: {
        subnets: ['10.1.0.0/24', 'fd00:1::/64'],
        noMasquerade: ['10.0.0.0/8', '10.1.0.0/24', 'fd00:1::/64'],
      },
      hairpin: ['10.1.0.0/24', 'fd00:1::/64'],
    })
  })

  it('has hairpin with host ports too, and with neither where snat is off', () => {
    const runtimeConfig = { portMappings: [{ hostPort: 80, containerPort: 80 }] }
    expect(networkOf({ ...bridged, runtimeConfig }).hairpin).toEqual(['10.1.0.0/24'])
    expect(networkOf({ ...bridged, runtimeConfig, portmap: { snat: false } })).not.toHaveProperty('hairpin')
    expect(networkOf(bridged)).not.toHaveProperty('hairpin')
  })

  it('of routed pods has no bridge and forwards its subnets', () => {
    const network = networkOf({ mode: 'ptp', ipMasq: true, firewall: { ingressPolicy: 'isolated' }, ...bridged })
    expect(network).toMatchObject({ forwarding: [4], masquerade: { subnets: ['10.1.0.0/24'] } })
    expect(network.acceptSubnets).toEqual(['10.1.0.0/24'])
    for (const key of ['bridge', 'ingressPolicy', 'hostAccept']) expect(network).not.toHaveProperty(key)
  })

  it('has its bridge or its subnets accepted by other firewalls, with a firewall key only', () => {
    expect(networkOf({ ...bridged, firewall: {} }).hostAccept).toBe('cni0')
    for (const more of [{}, { firewall: { hostAccept: 'off' } }]) {
      expect(networkOf({ mode: 'ptp', ...bridged, ...more })).not.toHaveProperty('acceptSubnets')
    }
    for (const mode of ['bridge', 'ptp']) {
      const accepted = networkOf({ mode, ...bridged, firewall: {} })
      expect(Object.keys(accepted).filter((key) => /^(hostAccept|acceptSubnets)$/.test(key))).toHaveLength(1)
      expect(accepted.acceptNew).toEqual({ to: ['10.1.0.0/24'], from: [] })
    }
  })

  it('whose IPAM names no subnets takes them from the address', () => {
    expect(networkOf({ ...delegated, isGateway: true, ipMasq: true })).toMatchObject({
      bridge: { addresses: ['10.1.0.1/24'] },
      masquerade: { subnets: ['10.1.0.0/24'] },
    })
  })
})

describe('mergeNetworks', () => {
  const conf = { ...delegated, isGateway: true, ipMasq: true }
  const [one, two] = [networkOf(conf), networkOf(conf, lease([{ address: '10.2.0.2/24', gateway: '10.2.0.1' }]))]

  it('is the new one where there was none', () => expect(mergeNetworks(undefined, two, 'leases')).toEqual(two))

  it('gathers subnets and gateways pod by pod, in one order', () => {
    const merged = mergeNetworks(one, two, 'leases')
    expect(merged).toMatchObject({
      bridge: { addresses: ['10.1.0.1/24', '10.2.0.1/24'] },
      masquerade: { subnets: ['10.1.0.0/24', '10.2.0.0/24'] },
    })
    expect(mergeNetworks(two, one, 'leases')).toEqual(merged)
    expect(mergeNetworks(merged, one, 'leases')).toEqual(merged)
  })

  it('forgets a destination that the configuration no longer keeps, and learns one for the subnets before', () => {
    const [old, now] = ['172.16.0.0/12', '192.0.2.0/24'].map((cidr) => ({ ...conf, nonMasqueradeCIDRs: [cidr] }))
    const second = lease([{ address: '10.2.0.2/24', gateway: '10.2.0.1' }])
    expect(mergeNetworks(networkOf(old ?? {}), networkOf(now ?? {}, second), 'leases').masquerade).toEqual({
      subnets: ['10.1.0.0/24', '10.2.0.0/24'],
      noMasquerade: ['10.1.0.0/24', '10.2.0.0/24', '192.0.2.0/24'],
    })
  })

  it('keeps the masquerade of earlier pods where the configuration has no addresses, and so does not read ipMasq', () => {
    const { ipam: _, ...layer2 } = delegated
    const now = networkOf(layer2, lease([]))
    expect(now.masquerade).toBeUndefined()
    expect(mergeNetworks(one, now, 'none').masquerade).toEqual(one.masquerade)
    expect(mergeNetworks(one, now, 'leases').masquerade).toBeUndefined()
  })

  it('is the new one where the configuration names the subnets, with the hairpin of a pod before', () => {
    const runtimeConfig = { portMappings: [{ hostPort: 80, containerPort: 80 }] }
    const [withPorts, without] = [networkOf({ ...bridged, runtimeConfig }), networkOf(bridged)]
    expect(mergeNetworks(withPorts, without, 'configured')).toEqual({ ...without, hairpin: ['10.1.0.0/24'] })
    expect(mergeNetworks(networkOf(delegated), without, 'configured')).toEqual(without)
  })
})
