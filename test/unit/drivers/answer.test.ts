// SPDX-License-Identifier: Apache-2.0
// The result of ADD, from configuration and lease: which links of the host are in it, and which routes.

import { describe, expect, it } from 'vitest'
import { resultOf } from '../../../src-before/drivers/answer.ts'
import type { Lease } from '../../../src-before/model/attachment.ts'
import { specsOf } from '../../support/golden.ts'
import { type Json, read } from '../cni/call.ts'

const pool = { ipam: { type: 'host-local', subnet: '10.1.0.0/24' } }
const ips = [{ address: '10.1.0.2/24', gateway: '10.1.0.1' }]

function resultFor(conf: Json, lease: Lease = { ips, routes: [] }) {
  const isDefaultGateway = conf['isDefaultGateway'] === true
  return resultOf({ ...specsOf(read({ ...pool, ...conf }), lease), lease, netns: '/run/netns/a', isDefaultGateway })
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
  const routesFor = (conf: Json, routes: Lease['routes']) => resultFor(conf, { ips, routes }).routes

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
    expect(specsOf(read(pool), { ips, routes: given }).spec.routes).toEqual([{ dst: '10.9.0.0/16', gw }])
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
    const lease = {
      ips,
      routes: [
        { dst, gw },
        { dst, gw, priority: 5 },
      ],
    }
    const made = specsOf(read(pool), lease)
    const spec = { ...made.spec, defaultRoutes: [] }
    expect(resultOf({ ...made, spec, lease, netns: '/run/netns/a', isDefaultGateway: false }).routes).toEqual([
      { dst, gw, priority: 5 },
    ])
  })
})
