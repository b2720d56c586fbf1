// SPDX-License-Identifier: Apache-2.0
// From a configuration and a lease to a spec: gateways, routes, MACs and MTUs of the attachment; bridge, masquerade,
// hairpin and forwarding of the network.

import { describe, expect, it } from 'vitest'
import { opsOf, ownElements, ownLinks, undoOf } from '../../../src/drivers/attachment.ts'
import { keepForeignBridge } from '../../../src/drivers/describe.ts'
import { elementComment } from '../../../src/drivers/names.ts'
import type { Lease, NetworkSpec, PodAddress } from '../../../src/drivers/spec.ts'
import { errorOf, id, type Json, lineOf, specOf, v4, v6 } from '../call.ts'

const pool = { ipam: { type: 'host-local', ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00:1::/64' }]] } }
const delegated = { ipam: { type: 'dhcp' } }
const leaseOf = (addresses: readonly PodAddress[] = [v4], routes: Lease['routes'] = []): Lease => ({
  addresses,
  routes,
})
const attached = (conf: Json, lease = leaseOf()) => specOf(conf, { lease })
const networkOf = (conf: Json, lease = leaseOf()): NetworkSpec => {
  const { network } = attached(conf, lease)
  if (network === undefined) throw new Error('no network')
  return network
}
const noAddresses = leaseOf([])
const default4 = { dst: '0.0.0.0/0', gw: '10.1.0.1' }

describe('the routes of a pod', () => {
  it('are those of IPAM; one without gateway goes by the first of its family', () => {
    const routes = [{ dst: '10.9.0.0/16' }, { dst: 'fd09::/16' }, { dst: '10.8.9.9/16', gw: '10.1.0.9' }]
    expect(attached(pool, leaseOf([v4, v6], routes)).routes).toEqual([
      { dst: '10.9.0.0/16', gw: '10.1.0.1' },
      { dst: 'fd09::/16', gw: 'fd00:1::1' },
      { dst: '10.8.0.0/16', gw: '10.1.0.9' },
    ])
  })

  const other4 = { ...default4, gw: '10.1.0.7' }
  it.each<[string, Json, Lease, readonly object[]]>([
    ['none by themselves', pool, leaseOf(), []],
    [
      'one a family with isDefaultGateway',
      { ...pool, isDefaultGateway: true },
      leaseOf([v4, v6]),
      [default4, { dst: '::/0', gw: 'fd00:1::1' }],
    ],
    ['that of IPAM before ours', { ...pool, isDefaultGateway: true }, leaseOf([v4], [other4]), [other4]],
    ['each of several, once', pool, leaseOf([v4], [default4, other4, default4]), [default4, other4]],
    ['none without a gateway', delegated, leaseOf([{ address: '10.1.0.2/24' }]), []],
    ['zeros are "not set"', pool, leaseOf([v4], [{ ...default4, table: 0, priority: 0 }]), [default4]],
  ])('default: %s', (_, conf, given, routes) => expect(attached(conf, given).defaultRoutes).toEqual(routes))

  it('a default route of another metric or table is an ordinary one', () => {
    const metric = { ...default4, priority: 100 }
    const spec = attached(pool, leaseOf([v4], [metric]))
    expect([spec.routes, spec.defaultRoutes]).toEqual([[metric], []])
  })

  it('whose gateway is on no link are refused, before the bridge has anything', () => {
    const far = leaseOf([v4], [{ dst: '10.9.0.0/16', gw: '192.0.2.1' }])
    expect(lineOf(errorOf(() => attached(pool, far)))).toBe(
      '(7) ipam: gateway 192.0.2.1 is in no subnet of the pod (10.1.0.2/24)',
    )
    const near = leaseOf([v6], [{ dst: 'fd09::/16', gw: 'fe80::1' }])
    expect(attached(pool, near).routes).toHaveLength(1)
  })

  it('of a routed pod reach the gateway by the link and the subnet through it', () => {
    const spec = attached(
      { mode: 'ptp', ipMasq: true, ...pool },
      leaseOf([v4], [{ dst: '10.9.0.0/16', gw: '10.1.0.9' }]),
    )
    expect(spec.routes).toEqual([
      { dst: '10.1.0.1/32', src: '10.1.0.2', scope: 253 },
      { dst: '10.1.0.0/24', gw: '10.1.0.1', src: '10.1.0.2' },
      { dst: '10.9.0.0/16', gw: '10.1.0.9', onlink: true },
    ])
    expect([spec.port, spec.reachesItself]).toEqual([undefined, true])
    const without = () => attached({ mode: 'ptp', ...delegated }, leaseOf([{ address: '10.1.0.2/24' }]))
    expect(lineOf(errorOf(without))).toContain('(7) ipam: 10.1.0.2/24 has no gateway')
  })
})

describe('addresses and MACs', () => {
  it('an address without gateway gets the first of its subnet where the bridge is the gateway', () => {
    const given = leaseOf([{ address: '10.1.0.2/24' }])
    expect(attached({ ...delegated, isGateway: true }, given).addresses).toEqual([v4])
    expect(attached(delegated, given).addresses).toEqual([{ address: '10.1.0.2/24' }])
  })

  it('an address that is its own gateway is refused', () => {
    const own = leaseOf([{ address: '10.1.0.1/24', gateway: '10.1.0.1' }])
    expect(errorOf(() => attached(delegated, own))).toMatchObject({ code: 102 })
    const fixed = { ipam: { type: 'static', addresses: [{ address: '10.1.0.1/24', gateway: '10.1.0.1' }] } }
    expect(errorOf(() => attached(fixed, own))).toMatchObject({ code: 7 })
  })

  it('the MAC follows the address from our pool, the attachment with a delegate, and what is asked for', () => {
    const macOf = (conf: Json, lease = leaseOf()) => attached(conf, lease).pod?.mac
    const asked = { ...pool, runtimeConfig: { mac: '0a:00:00:00:00:01' } }
    expect(macOf(pool)).toBe('0a:58:0a:01:00:02')
    expect(macOf(delegated)).toBe(macOf(delegated, leaseOf([{ address: '10.7.7.7/24' }])))
    expect(macOf(asked)).toBe('0a:00:00:00:00:01')
    expect(macOf({ ...asked, args: { cni: { mac: '0a:00:00:00:00:03' } }, tuning: {} })).toBe('0a:00:00:00:00:03')
  })
})

describe('a network', () => {
  it('of layer 2 is a bridge and nothing else', () => {
    const network = networkOf({}, noAddresses)
    expect(network).toMatchObject({ forwarding: [], hairpin: [], bridge: { addresses: [], vlanFiltering: false } })
    for (const key of ['masquerade', 'ingressPolicy', 'accept']) expect(network).not.toHaveProperty(key)
  })

  it('with podcidr is gateway, forwards, masquerades and reflects', () => {
    expect(networkOf({ podcidr: ['10.1.0.0/24', 'fd00:1::/64'], nonMasqueradeCIDRs: ['10.0.0.0/8'] })).toMatchObject({
      bridge: { addresses: ['10.1.0.1/24', 'fd00:1::1/64'] },
      forwarding: [4, 6],
      masquerade: {
        sources: ['10.1.0.0/24', 'fd00:1::/64'],
        keep: ['10.0.0.0/8', '10.1.0.0/24', 'fd00:1::/64'],
      },
      hairpin: ['10.1.0.0/24', 'fd00:1::/64'],
      isLearned: false,
    })
  })

  it('of routed pods has no bridge and forwards its subnets', () => {
    const network = networkOf({ mode: 'ptp', ipMasq: true, firewall: { ingressPolicy: 'isolated' }, ...pool })
    expect(network).toMatchObject({
      forwarding: [4, 6],
      gateways: [],
      accept: { subnets: ['10.1.0.0/24', 'fd00:1::/64'] },
    })
    for (const key of ['bridge', 'ingressPolicy']) expect(network).not.toHaveProperty(key)
  })

  it('whose IPAM names no subnets takes them from the address, and learns more', () => {
    expect(networkOf({ ...delegated, isGateway: true, ipMasq: true })).toMatchObject({
      bridge: { addresses: ['10.1.0.1/24'] },
      masquerade: { sources: ['10.1.0.0/24'] },
      isLearned: true,
    })
  })

  it('on a bridge that another program made keeps its MAC and MTU', () => {
    const network = networkOf(pool)
    const foreign = {
      ...network,
      bridge: { ...network.bridge, mac: '02:00:00:00:00:09', mtu: 9000, isForeign: true },
    } as NetworkSpec
    expect(keepForeignBridge(network, foreign).bridge).toMatchObject({
      mac: '02:00:00:00:00:09',
      mtu: 9000,
      isForeign: true,
    })
    const elsewhere = { ...foreign, bridge: { ...foreign.bridge, name: 'br9' } } as NetworkSpec
    expect(keepForeignBridge(network, elsewhere)).toBe(network)
  })
})

describe('the operations of an attachment', () => {
  const everything = {
    ...{
      podcidr: ['10.1.0.0/24', 'fd00:1::/64'],
      macspoofchk: true,
      enabledad: true,
      sbr: {},
      portmap: { masqAll: true },
    },
    ...{
      bandwidth: { ingressRate: 8000, egressRate: 8000 },
      tuning: { sysctl: { 'net.core.somaxconn': '9' }, promisc: true },
    },
    runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 80 }] },
  }

  it('look at default routes before ours can be among them, and add ours last', () => {
    const ops = opsOf(specOf({ podcidr: ['10.1.0.0/24', 'fd00:1::/64'] })).filter(({ place }) => place === 'pod')
    const kinds = ops.map(({ kind }) => kind)
    expect(kinds.lastIndexOf('defaults.show')).toBeLessThan(kinds.indexOf('address.add'))
    expect(ops.slice(-2)).toMatchObject([
      { kind: 'route.add', how: 'add', tolerate: 'exists' },
      { kind: 'route.add', how: 'add', tolerate: 'exists' },
    ])
  })

  it('have reasons that complete "could not"', () => {
    const spec = specOf(everything)
    for (const { why } of [...opsOf(spec), ...undoOf(spec, ownLinks(spec), 7)])
      expect(why).toMatch(/^[a-z][^\n]+[^.\n]$/)
  })

  it('have the attachment’s comment on each of its elements', () => {
    const elements = ownElements(specOf(everything))
    expect(elements.length).toBeGreaterThan(5)
    expect(new Set(elements.map(({ comment }) => comment))).toEqual(new Set([elementComment(id)]))
  })

  it('remove two links as one group', () => {
    const spec = specOf(everything)
    const links = ownLinks(spec)
    expect(links).toHaveLength(2)
    const kinds = (devs: readonly string[]) =>
      undoOf(spec, devs, 7).flatMap((op) => (op.place === 'host' ? [op.kind] : []))
    expect(kinds(links).slice(0, 3)).toEqual(['link.set', 'link.set', 'group.delete'])
    expect(kinds(links.slice(0, 1))[0]).toBe('link.delete')
    expect(kinds([]).filter((kind) => kind !== 'element.delete')).toEqual([])
  })
})
