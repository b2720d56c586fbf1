// SPDX-License-Identifier: Apache-2.0
// What the tools get in an ADD and its DEL, against golden text: a pod on a bridge, a routed one, one on a link of the
// host, one with everything.

import { describe, expect, it } from 'vitest'
import { hostOps, podOps } from '../../../src-before/drivers/attach.ts'
import { opsOf } from '../../../src-before/plan/order/stage.ts'
import { plansOf, plansText, specsOf } from '../../support/golden.ts'
import { type Json, read } from '../cni/call.ts'

const dual = {
  ips: [
    { address: '10.1.0.2/24', gateway: '10.1.0.1' },
    { address: 'fd00:1::2/64', gateway: 'fd00:1::1' },
  ],
  routes: [],
}
const portMappings = [
  { hostPort: 8080, containerPort: 80, protocol: 'tcp' },
  { hostPort: 5353, containerPort: 53, protocol: 'udp', hostIP: '192.0.2.1' },
]
const subnets = ['10.1.0.0/24', 'fd00:1::/64']
const ranges = [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00:1::/64' }]]
const everything = {
  podcidr: ['10.1.0.0/24', 'fd00:1::/64'],
  macspoofchk: true,
  enabledad: true,
  portmap: { masqAll: true },
  bandwidth: { ingressRate: 8_000_000, egressRate: 4_000_000, egressBurst: 800_000 },
  tuning: {
    sysctl: { 'net.core.somaxconn': '200', 'net.ipv4.conf.IFNAME.arp_filter': '1' },
    mac: '0a:00:00:00:00:10',
    mtu: 1400,
    promisc: true,
    allmulti: false,
    txQLen: 500,
  },
  sbr: {},
  runtimeConfig: { portMappings },
}

const prevResult = {
  cniVersion: '1.1.0',
  interfaces: [{ name: 'cni9' }, { name: 'veth9' }, { name: 'eth0', sandbox: '/run/netns/a' }],
  ips: [{ address: '10.1.0.2/24', gateway: '10.1.0.1', interface: 2 }],
}
const titles = { later: 'ADD', DEL: 'DEL' } as const
const cases: readonly [name: string, conf: Json][] = [
  ['attach-layer-2', {}],
  ['attach-bridge', { podcidr: '10.1.0.0/24' }],
  ['attach-routed', { mode: 'ptp', isDefaultGateway: true, ipMasq: true, ipam: { type: 'host-local', ranges } }],
  ['attach-macvlan', { mode: 'macvlan', master: 'up0', podcidr: subnets, tuning: everything.tuning }],
  ['attach-host-device', { mode: 'host-device', device: 'up0', podcidr: subnets, tuning: everything.tuning }],
  ['attach-delegated', { isGateway: true, ipam: { type: 'dhcp' } }],
  ['attach-chained', { ...everything, mode: 'chained', podcidr: undefined, macspoofchk: undefined, prevResult }],
  ['attach-loopback', { mode: 'loopback' }],
  ['attach-everything', everything],
  [
    'attach-routed-everything',
    {
      ...everything,
      podcidr: undefined,
      macspoofchk: undefined,
      mode: 'ptp',
      ipMasq: true,
      ipam: { type: 'host-local', ranges },
    },
  ],
]

describe('an attachment', () => {
  it.each(cases)('%s', async (name, conf) => {
    const calls = ['later', 'DEL'] as const
    const texts = calls.map(async (called) => plansText(titles[called], await plansOf(read(conf), called)))
    const text = (await Promise.all(texts)).join('\n')
    await expect(text).toMatchFileSnapshot(`../../cases/${name}.txt`)
  })

  it('looks at default routes before its own can be among them, and adds its own last', () => {
    const { spec } = specsOf(read({ podcidr: ['10.1.0.0/24', 'fd00:1::/64'] }), dual)
    const kinds = podOps(spec).map(({ kind }) => kind)
    expect(kinds.lastIndexOf('route.show-default')).toBeLessThan(kinds.indexOf('addr.replace'))
    expect(kinds.slice(-2)).toEqual(['route.add', 'route.add'])
  })

  it('does nothing in the pod with disableContainerInterface', () => {
    const { spec } = specsOf(read({ disableContainerInterface: true }), { ips: [], routes: [] })
    expect(podOps(spec)).toEqual([])
    expect(hostOps(spec)).not.toEqual([])
  })

  it('has a reason for every operation that completes "could not"', async () => {
    const all = await Promise.all((['first', 'later', 'DEL'] as const).map((each) => plansOf(read(everything), each)))
    for (const { why } of all.flat().flatMap((plan) => opsOf(plan))) expect(why).toMatch(/^[a-z][^\n]+[^.\n]$/)
  })
})
