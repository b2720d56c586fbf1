// SPDX-License-Identifier: Apache-2.0
// Everything that a call runs, as text: test/cases has one page for each. Made by the verbs themselves, with a machine that
// prints. After a change on purpose: npx vitest run --config test/vitest.config.ts --project unit golden -u

import { expect, it } from 'vitest'
import { type Planned, planOf } from '../../../src/commands/plan.ts'
import { bridgeMac, linkLocalPrefix } from '../../../src/drivers/names.ts'
import { machineId } from '../../../src/kernel/proc.ts'

const ports = [
  { hostPort: 8080, containerPort: 80, protocol: 'tcp' },
  { hostPort: 5353, containerPort: 53, protocol: 'udp' },
]
const everything = {
  bandwidth: { ingressRate: 8_000_000, ingressBurst: 800_000, egressRate: 4_000_000, egressBurst: 800_000 },
  tuning: { sysctl: { 'net.core.somaxconn': '200' }, txQLen: 500 },
  firewall: { ingressPolicy: 'same-bridge' },
  sbr: {},
  runtimeConfig: { portMappings: ports },
}
const dual = { podcidr: ['10.255.1.0/24', 'fd00:1::/64'] }
const ranges = [[{ subnet: '10.255.1.0/24' }], [{ subnet: 'fd00:1::/64' }]]
const ptp = { mode: 'ptp', ipMasq: true, ipam: { type: 'host-local', ranges, routes: [{ dst: '0.0.0.0/0' }] } }
const prevResult = {
  cniVersion: '1.0.0',
  interfaces: [
    { name: 'br0' },
    { name: 'end0', mac: '02:00:00:00:00:01' },
    { name: 'eth0', mac: '0a:58:0a:ff:01:02', sandbox: '/run/netns/example' },
  ],
  ips: [{ address: '10.255.1.2/24', gateway: '10.255.1.1', interface: 2 }],
}

const cases: readonly (readonly [name: string, conf: object, what?: Planned])[] = [
  ['bridge-first', dual],
  ['bridge', dual, 'later'],
  ['bridge-after-a-flush', dual, 'flushed'],
  ['bridge-del', dual, 'del'],
  ['bridge-everything', { ...dual, ...everything, macspoofchk: true }, 'later'],
  ['bridge-everything-del', { ...dual, ...everything, macspoofchk: true }, 'del'],
  ['bridge-layer-2', {}, 'later'],
  ['bridge-vlan', { isGateway: true, vlan: 100, ipam: { type: 'host-local', ranges } }],
  ['bridge-vlan-trunk', { vlan: 100, vlanTrunk: [{ minID: 200, maxID: 202 }] }, 'later'],
  ['bridge-delegated', { isDefaultGateway: true, ipam: { type: 'dhcp' } }],
  ['ptp', ptp, 'later'],
  ['ptp-everything', { ...ptp, ...everything }, 'later'],
  ['host-device', { mode: 'host-device', device: 'card0', ipam: ptp.ipam }],
  ['chained', { mode: 'chained', ipMasq: true, ...everything, prevResult }],
  ['loopback', { mode: 'loopback' }],
]

it.each(cases.map(([name, conf, what]) => ({ name, conf, what })))(
  '$name',
  async ({ name, conf: more, what = 'first' }) => {
    const conf = { cniVersion: '1.0.0', name: 'net', type: 'trestle', mtu: 1500, ...more }
    const steps = await planOf(JSON.stringify(conf), what)
    const text = steps.map(({ command, stdin }) => `${command}\n${stdin.replace(/^(?=.)/gm, '  ')}`).join('\n')
    // What follows from the machine and the process.
    const mac = bridgeMac('cni0', machineId())
    const same = text
      .replaceAll(mac, 'MAC')
      .replaceAll(linkLocalPrefix(mac), 'LINK-LOCAL')
      .replace(/\bgroup 1073\d+/g, 'group N')
    await expect(same).toMatchFileSnapshot(`../../cases/${name}.txt`)
  },
)
