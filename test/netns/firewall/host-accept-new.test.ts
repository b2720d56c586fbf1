// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept: who may open a connection to a pod where the node drops what it forwards: the network's own ranges,
// nonMasqueradeCIDRs, and everybody through a host port. On bridges and routed.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, askOnce, filterBridged, type Target } from '../../support/ask.ts'
import { foreignTable } from '../../support/foreign-firewalls.ts'
import { runLine } from '../../support/outcome.ts'
import { attach, ipamConf, netConf } from '../../support/traffic/pods.ts'
import { outside } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

const subnets = ['10.240.0.0/24', 'fd00:240::/64']
const ranges = subnets.map((subnet) => [{ subnet }])
const shapes = [
  ['on a bridge', netConf({ podcidr: subnets })],
  ['routed', ipamConf({ type: 'host-local', ranges }, { mode: 'ptp', ipMasq: true })],
] as const
const ports = { runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80 }] } }
/** The addresses that the world behind the uplink asks from. */
const near = ['192.0.2.0/30', '2001:db8:1::/64']

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
  host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'])
  filterBridged(host, true)
  for (const line of foreignTable) runLine(host, line)
  for (const [at, family] of ['-4', '-6'].entries()) {
    const via = at === 0 ? outside.node4 : outside.node6
    const args = [family, 'route', 'add', subnets[at] ?? '', 'via', via]
    expect(host.inPod(host.internet, 'ip', args).code).toBe(0)
  }
})
afterEach(() => host.close())

const both = (addresses: readonly string[], port: number): readonly Target[] =>
  addresses.flatMap((address) => (['tcp', 'udp'] as const).map((protocol) => ({ protocol, address, port })))

/** Which of these answer: pod from outside, host port from outside, outside from pod, pod from its neighbour. */
async function reached(shape: object, more: object) {
  const conf = { ...shape, firewall: {}, ...more }
  const server = attach(host, { ...conf, ...ports }, { id: 'server' })
  const client = attach(host, conf, { id: 'client' })
  const pod = server.result.ips.map((ip) => ip.address.replace(/\/.*/, ''))
  for (const [netns, port, address] of [
    [server.netns, 80, '::'],
    [host.internet, 90, outside.far4],
    [host.internet, 90, outside.far6],
  ] as const)
    host.atClose(await answer(netns, port, address))
  const isOpen = (netns: string, targets: readonly Target[], isExpected = true) =>
    (isExpected ? ask : askOnce)(host, netns, targets).every((said) => said !== '')
  const isSilent = (netns: string, targets: readonly Target[]) =>
    askOnce(host, netns, targets).every((said) => said === '')
  const node = [outside.node4, outside.node6].map((address) => ({ protocol: 'tcp', address, port: 8080 }) as const)
  const works =
    isOpen(host.internet, node) &&
    isOpen(client.netns, both([outside.far4, outside.far6], 90)) &&
    isOpen(client.netns, both(pod, 80))
  const fromOutside = isSilent(host.internet, both(pod, 80))
    ? 'silent'
    : isOpen(host.internet, both(pod, 80))
      ? 'open'
      : 'some'
  return { works, fromOutside }
}

describe.each(shapes)('%s', (_, shape) => {
  it.each([
    ['nobody else, as a rule', {}, 'silent'],
    ['whom nonMasqueradeCIDRs names', { nonMasqueradeCIDRs: near }, 'open'],
  ])('lets in %s', async (_, more, fromOutside) => {
    expect(await reached(shape, more)).toEqual({ works: true, fromOutside })
  })
})
