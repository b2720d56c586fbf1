// SPDX-License-Identifier: Apache-2.0
// What programs that manage a node's links do to links they take for theirs: MACs set anew, ports off the bridge, addresses
// flushed, links down. CHECK names it and `trestle restore` heals it; udev has no reason to set a MAC.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { restore } from '../../support/damage/breakage.ts'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateWord } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { addUplink, outside, pings } from '../../support/traffic/traffic.ts'

const bridged = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
const routed = netConf({ podcidr: ['10.241.0.0/24', 'fd00:241::/64'], mode: 'ptp' })

let host: Host
beforeEach(() => {
  host = openHost()
  addUplink(host)
})
afterEach(() => host.close())

const run = (line: string, pod: Pod) => runLine(host, line.replaceAll('VETH', pod.hostLink))

/** Conf, what is done to the node, and what CHECK says. */
const takeovers = [
  ['the MAC of the bridge is set', bridged, ['ip link set cni0 address 0a:00:00:00:00:09'], /^MAC of cni0 is /m],
  ['the MAC of a port is set', bridged, ['ip link set VETH address 0a:00:00:00:00:09'], /^MAC of veth\w+ is /m],
  ['a port is taken off the bridge', bridged, ['ip link set VETH nomaster'], /^bridge of veth\w+ is none/m],
  ['the port is down', bridged, ['ip link set VETH down'], /^veth\w+ is down$/m],
  ['the bridge loses its addresses', bridged, ['ip addr flush dev cni0'], /^10\.240\.0\.1\/24 is missing on cni0$/m],
  ['the bridge is down', bridged, ['ip link set cni0 down'], /^cni0 is down$/m],
  ['the MAC of a routed link is set', routed, ['ip link set VETH address 0a:00:00:00:00:09'], /^MAC of veth\w+ is /m],
  ['a routed link loses its addresses', routed, ['ip addr flush dev VETH'], /is missing on veth/m],
  [
    'the routes to a routed pod go',
    routed,
    ['ip route flush dev VETH', 'ip -6 route flush dev VETH'],
    /host route to 10\.241\.0\.2\/32 dev veth\w+ is missing/m,
  ],
  ['a routed link is down', routed, ['ip link set VETH down'], /^veth\w+ is down$/m],
] as const

describe('a network manager that takes links for its own', () => {
  it.each(takeovers)('%s: CHECK names it, restore heals it', (_, conf, lines, said) => {
    const pod = attach(host, conf)
    for (const line of lines) run(line, pod)
    expectError(later(host, 'CHECK', { conf, pod }), 107, said)
    restore(host)
    expectSilent(later(host, 'CHECK', { conf, pod }))
    for (const address of [outside.far4, outside.far6]) expect(pings(host, pod.netns, address), address).toBe(true)
  })

  it('that switches IPv6 off on the bridge: ADD and restore say so and what to do, and all works when it is undone', () => {
    const pod = attach(host, bridged)
    run('sysctl -qw net.ipv6.conf.cni0.disable_ipv6=1', pod)
    const refused = host.cni('ADD', bridged, { id: 'next', netns: host.pod('next') })
    expectError(refused, 100, 'run sysctl -w net.ipv6.conf.cni0.disable_ipv6=0')
    const failed = host.run('env', [stateWord(host), trestle, 'restore'])
    expect([failed.code, failed.stderr]).toEqual([3, expect.stringContaining('IPv6 is disabled')])
    expect(failed.stderr).toContain('run sysctl -w net.ipv6.conf.cni0.disable_ipv6=0')
    run('sysctl -qw net.ipv6.conf.cni0.disable_ipv6=0', pod)
    restore(host)
    expectSilent(later(host, 'CHECK', { conf: bridged, pod }))
  })

  /** systemd.link(5), MACAddressPolicy: not where the kernel says NET_ADDR_SET (net_device.h), which is 3. */
  it('has no MAC to choose: all are set when the links are made', () => {
    const pod = attach(host, netConf({ bandwidth: { egressRate: 1_000_000 } }))
    for (const link of ['cni0', pod.hostLink]) {
      const type = host.run('unshare', [
        '-m',
        'sh',
        '-c',
        `mount -t sysfs sysfs /sys; cat /sys/class/net/${link}/addr_assign_type`,
      ])
      expect(type.stdout.trim(), link).toBe('3')
    }
  })
})
