// SPDX-License-Identifier: Apache-2.0
// What one attachment is told to the tools, against golden text: a pod on a bridge, a routed one, one with
// everything, and how each goes.

import { describe, expect, it } from 'vitest'
import {
  afterRuleOps,
  attachmentRuleOps,
  hostOps,
  nameOps,
  podOps,
  podSysctlOps,
  podTeardownOps,
  queueingOps,
  teardownOps,
} from '../../../../src/plan/modes/attach.ts'
import { planText, specsOf } from '../../../support/golden.ts'
import { type Json, read } from '../../cni/model/call.ts'

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

const cases: readonly [name: string, conf: Json, lease: typeof dual][] = [
  ['attach-layer-2', {}, { ips: [], routes: [] }],
  ['attach-bridge', { podcidr: '10.1.0.0/24' }, { ips: dual.ips.slice(0, 1), routes: [] }],
  ['attach-routed', { mode: 'ptp', isDefaultGateway: true, ipMasq: true, ipam: { type: 'host-local', ranges } }, dual],
  ['attach-macvlan', { mode: 'macvlan', podcidr: ['10.1.0.0/24', 'fd00:1::/64'], tuning: everything.tuning }, dual],
  ['attach-everything', everything, dual],
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
    dual,
  ],
]

describe('an attachment', () => {
  it.each(cases)('%s', async (name, conf, lease) => {
    const { spec } = specsOf(read(conf), lease)
    const text = planText({
      'on the host': hostOps(spec),
      'elements of rules': attachmentRuleOps(spec),
      'after the rules': afterRuleOps(spec),
      'in the pod': [...nameOps(spec), ...podOps(spec)],
      'sysctls of the pod': podSysctlOps(spec),
      'beside the pod': queueingOps(spec),
      'DEL, on the host': teardownOps(spec, 77),
      'DEL, in a pod that is still there': podTeardownOps(spec),
    })
    await expect(text).toMatchFileSnapshot(`../../../cases/${name}.txt`)
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

  it('has a reason for every operation that completes "could not"', () => {
    const { spec } = specsOf(read(everything), dual)
    const all = [
      ...hostOps(spec),
      ...podOps(spec),
      ...attachmentRuleOps(spec),
      ...queueingOps(spec),
      ...teardownOps(spec, 1),
    ]
    for (const { why } of all) expect(why).toMatch(/^[a-z][^\n]+[^.\n]$/)
  })
})
