// SPDX-License-Identifier: Apache-2.0
// The result of ADD, from configuration and lease: which links of the host are in it, and which routes.

import { describe, expect, it } from 'vitest'
import { afterPrevious, leaseResult, resultOf } from '../../../src/drivers/result.ts'
import type { Lease } from '../../../src/drivers/spec.ts'
import { type Json, specOf } from '../call.ts'

const pool = { ipam: { type: 'host-local', subnet: '10.1.0.0/24' } }
const ips = [{ address: '10.1.0.2/24', gateway: '10.1.0.1' }]

function resultFor(conf: Json, routes: Lease['routes'] = []) {
  const spec = specOf({ ...pool, ...conf }, { lease: { addresses: ips, routes } })
  return resultOf(spec, routes, '/run/netns/a', conf['isDefaultGateway'] === true)
}

describe('the interfaces of a result', () => {
  const bandwidth = { egressRate: 8000, egressBurst: 8000 }

  it.each<[string, Json, readonly string[]]>([
    ['the gateway on the bridge', { isGateway: true }, ['cni0', 'veth', 'eth0']],
    ['a VLAN without a gateway', { vlan: 100 }, ['cni0', 'veth', 'eth0']],
    ['the gateway on a VLAN', { vlan: 100, isGateway: true }, ['cni0', 'veth', 'eth0', 'cni0.100']],
    ['both and an ifb', { vlan: 100, isGateway: true, bandwidth }, ['cni0', 'veth', 'eth0', 'cni0.100', 'ifb']],
    ['a routed pod', { mode: 'ptp' }, ['veth', 'eth0']],
  ])('%s', (_, conf, names) => {
    const result = resultFor(conf)
    expect(result.interfaces.map(({ name }) => name.replace(/^(veth|ifb).*/, '$1'))).toEqual(names)
    expect(result.ips).toEqual([{ ...ips[0], interface: names.indexOf('eth0') }])
    expect(result.interfaces.every(({ mac, mtu }) => mac !== undefined && mtu === 1500)).toBe(true)
  })
})

describe('the routes of a result', () => {
  const [dst, gw] = ['0.0.0.0/0', '10.1.0.1']
  const routesFor = (conf: Json, routes: Lease['routes']) => resultFor(conf, routes).routes

  it.each([{ table: 5000 }, { priority: 5 }])('have the default route beside one of IPAM with %j', (more) => {
    const asked = { dst, ...more }
    expect(routesFor({ isDefaultGateway: true }, [asked])).toEqual([asked, { dst, gw }])
  })

  it('have a default route of IPAM once, also with zeros', () => {
    for (const given of [{ dst }, { dst, gw }, { dst, gw, table: 0, priority: 0 }])
      expect(routesFor({ isDefaultGateway: true }, [given])).toEqual([given])
  })

  it('have their host bits, which the kernel does not take', () => {
    const given = [{ dst: '10.9.9.9/16', gw }]
    expect(routesFor({}, given)).toEqual(given)
  })

  it('have those that sbr has moved', () => {
    const given = [
      { dst: '10.9.0.0/16', gw },
      { dst, gw },
    ]
    expect(routesFor({ sbr: {} }, given)).toEqual(given)
    expect(routesFor({ sbr: {}, isDefaultGateway: true }, given)).toEqual(given)
  })

  it('have the default route of the gateway that sbr has moved, and none that sbr alone has', () => {
    expect(routesFor({ sbr: {}, isDefaultGateway: true }, [])).toEqual([{ dst, gw }])
    expect(routesFor({ sbr: {} }, [])).toEqual([])
  })

  it('are without a default route that the pod did not get, although it got one with a metric', () => {
    const routes = [
      { dst, gw },
      { dst, gw, priority: 5 },
    ]
    const spec = { ...specOf(pool, { lease: { addresses: ips, routes } }), defaultRoutes: [] }
    expect(resultOf(spec, routes, '/run/netns/a', false).routes).toEqual([{ dst, gw, priority: 5 }])
  })

  it('have nothing that is for the kernel alone', () => {
    const [route] = resultFor({ mode: 'ptp' }, [{ dst: '10.9.0.0/16', gw: '10.1.0.9' }]).routes
    expect(route).toEqual({ dst: '10.9.0.0/16', gw: '10.1.0.9' })
  })
})

describe('behind earlier plugins of the list', () => {
  const own = resultFor({})
  const prevResult = { interfaces: [{ name: 'x' }], ips: [{ address: '10.9.0.2/24', interface: 0 }], routes: [] }

  it('a result has theirs first, and its own addresses point to its own interfaces', () => {
    const { interfaces, ips: all } = afterPrevious(own, { prevResult, cniVersion: '1.1.0' })
    expect(interfaces[0]).toEqual({ name: 'x' })
    expect(all.map(({ interface: at }) => at)).toEqual([0, (own.ips[0]?.interface ?? 0) + 1])
  })

  it('a result below 0.3.0 has its own only', () => {
    expect(afterPrevious(own, { prevResult, cniVersion: '0.2.0' })).toBe(own)
  })
})

it('the result of the role of IPAM has no interfaces', () => {
  expect(leaseResult({ addresses: ips, routes: [], dns: { domain: 'x' } })).toEqual({
    interfaces: [],
    ips,
    routes: [],
    dns: { domain: 'x' },
  })
})
