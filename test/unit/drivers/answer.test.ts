// SPDX-License-Identifier: Apache-2.0
// The result of ADD, from configuration and lease: which links of the host are in it.

import { describe, expect, it } from 'vitest'
import { resultOf } from '../../../src/drivers/answer.ts'
import type { Lease } from '../../../src/model/attachment.ts'
import { specsOf } from '../../support/golden.ts'
import { type Json, read } from '../cni/call.ts'

const pool = { ipam: { type: 'host-local', subnet: '10.1.0.0/24' } }
const ips = [{ address: '10.1.0.2/24', gateway: '10.1.0.1' }]

function resultFor(conf: Json, lease: Lease = { ips, routes: [] }) {
  return resultOf({ ...specsOf(read({ ...pool, ...conf }), lease), lease, netns: '/run/netns/a' })
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
