// SPDX-License-Identifier: Apache-2.0
// trestle after plugins that give each pod a link of the host that is on no Linux bridge, as Calico, Cilium and the AWS
// plugin do: /32 addresses, and the link's name made of the pod's.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { filterBridged } from '../../support/ask.ts'
import { restore } from '../../support/damage/breakage.ts'
import { type Answer, type Host, openHost } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { type RoutedPod, routedPod } from '../../support/traffic/routed-pods.ts'
import { addUplink, outside, pingsOnce, seenBy, serve } from '../../support/traffic/traffic.ts'

let host: Host
beforeEach(() => {
  host = openHost()
  runLine(host, 'sysctl -qw net.ipv4.ip_forward=1')
})
afterEach(() => host.close())

const listed = (set: string) => host.run('nft', ['list', 'set', 'inet', 'trestle', set]).stdout

describe('chained after a plugin that names the link after the pod', () => {
  const port = (hostPort: number) => ({ hostPort, containerPort: 80, protocol: 'tcp' })
  const confOf = (rate: number, hostPort: number) => ({
    ...{
      cniVersion: '1.0.0',
      name: 'net',
      type: 'trestle',
      firewall: { ingressPolicy: 'isolated', hostAccept: 'off' },
    },
    runtimeConfig: { bandwidth: { ingressRate: rate, egressRate: rate }, portMappings: [port(hostPort)] },
  })
  const [first, second] = [confOf(1_000_000, 8001), confOf(2_000_000, 8002)]
  const rates = () => host.run('tc', ['qdisc', 'show', 'dev', 'caliabc']).stdout

  /** The pod's first sandbox, and its second one with the first one's link name. */
  function twoSandboxes() {
    const add = (conf: object, { call, prevResult }: RoutedPod): Answer => {
      const added = host.cni('ADD', { ...conf, prevResult }, call)
      expect(added.code, added.stdout).toBe(0)
      return added.json as Answer
    }
    const one = routedPod(host, 'c1', 'caliabc', '10.1.2.3')
    const oneResult = add(first, one)
    const two = routedPod(host, 'c2', 'caliabc', '10.1.2.4')
    const twoResult = add(second, two)
    return {
      late: { conf: { ...first, prevResult: oneResult }, call: one.call },
      live: { conf: { ...second, prevResult: twoResult }, call: two.call },
    }
  }

  it('a late DEL of the first sandbox leaves the second one alone, and nothing of the first', () => {
    const { late, live } = twoSandboxes()
    const neighbour = routedPod(host, 'other', 'caliother', '10.1.2.9')
    expect(host.cni('ADD', { ...confOf(9_000_000, 8009), prevResult: neighbour.prevResult }, neighbour.call).code).toBe(
      0,
    )
    expectSilent(host.cni('DEL', late.conf, late.call))
    expect(rates()).toMatch(/tbf 1: root .*rate 2Mbit[\s\S]*ingress ffff:/)
    expectSilent(host.cni('CHECK', live.conf, live.call))
    expect(pingsOnce(host, neighbour.call.netns, '10.1.2.4')).toBe(false)
    expect(listed('self4')).not.toContain('10.1.2.3')
    expectSilent(host.cni('DEL', live.conf, live.call))
    expect(rates()).not.toMatch(/tbf|ingress/)
    for (const set of ['fenced', 'loopback']) expect(listed(set)).not.toContain('caliabc')
  })

  it('restore leaves the limits of the second sandbox alone', () => {
    const { late, live } = twoSandboxes()
    host.removePod(late.call.netns)
    restore(host)
    expect(rates()).toContain('rate 2Mbit')
    expectSilent(host.cni('CHECK', live.conf, live.call))
  })
})

it('a host port leads to an address whose index in prevResult is beyond the interfaces', async () => {
  const internet = addUplink(host)
  const { call, prevResult } = routedPod(host, 'c1', 'calia', '10.1.2.3')
  const ips = [{ interface: 7, address: '10.1.2.3/32' }]
  const runtimeConfig = { portMappings: [{ hostPort: 8080, containerPort: 8080, protocol: 'tcp' }] }
  const conf = { cniVersion: '1.0.0', name: 'net', type: 'trestle', runtimeConfig }
  const added = host.cni('ADD', { ...conf, prevResult: { ...prevResult, ips } }, call)
  expect(added.json, added.stdout).toMatchObject({ ips })
  const stop = await serve(call.netns)
  try {
    expect(seenBy(host, internet, outside.node4)).toBe('192.0.2.2')
  } finally {
    stop()
  }
})

describe('chained after a plugin whose pods share a link of the node', () => {
  const conf = { cniVersion: '1.0.0', name: 'net', type: 'trestle', firewall: { hostAccept: 'off' } }
  const runtimeConfig = { portMappings: [{ hostPort: 8080, containerPort: 8080, protocol: 'tcp' }] }

  /** A pod on a switch that the node reaches by a port of it, as antrea-gw0 is one. */
  function switched(id: string, address: string): RoutedPod {
    const netns = host.pod(id)
    const link = `v${id}`
    runLine(host, `ip link add ${link} up type veth peer name eth0 netns ${netns.slice('/run/netns/'.length)}`)
    runLine(host, `ip link set ${link} master br-switch`)
    for (const words of [
      ['addr', 'add', `${address}/24`, 'dev', 'eth0'],
      ['link', 'set', 'eth0', 'up'],
      ['route', 'add', 'default', 'via', '10.10.0.1'],
    ])
      expect(host.inPod(netns, 'ip', words).code, words.join(' ')).toBe(0)
    const interfaces = [{ name: link }, { name: 'eth0', sandbox: netns }]
    const ips = [{ interface: 1, address: `${address}/24` }]
    return { call: { id, netns }, prevResult: { cniVersion: '1.0.0', interfaces, ips } }
  }

  it('a neighbour reaches a host port', async () => {
    addUplink(host)
    // A switch that is no Linux bridge has no br_netfilter, and answers for no address of the node.
    filterBridged(host, false)
    for (const line of [
      'ip link add br-switch up type bridge',
      'sysctl -qw net.ipv4.conf.br-switch.arp_ignore=1',
      'ip link add gw0 up type veth peer name gwport',
      'ip link set gwport up master br-switch',
      'ip addr add 10.10.0.1/24 dev gw0',
    ])
      runLine(host, line)
    const [pod, neighbour] = [switched('a', '10.10.0.2'), switched('b', '10.10.0.3')]
    const added = host.cni('ADD', { ...conf, runtimeConfig, prevResult: pod.prevResult }, pod.call)
    expect(added.code, added.stdout).toBe(0)
    const stop = await serve(pod.call.netns)
    try {
      expect(seenBy(host, neighbour.call.netns, outside.node4)).toBe('10.10.0.1')
    } finally {
      stop()
    }
  })
})

describe('chained where a route of the node refuses the pod', () => {
  const conf = { cniVersion: '1.0.0', name: 'net', type: 'trestle', firewall: {} }
  const runtimeConfig = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] }

  it.each(['unreachable', 'prohibit', 'blackhole'])('%s is no way to it', (kind) => {
    const { call, prevResult } = routedPod(host, 'c1', 'calia', '10.1.2.3')
    runLine(host, 'ip route del 10.1.2.3 dev calia')
    runLine(host, `ip route add ${kind} 10.0.0.0/8`)
    expectError(host.cni('ADD', { ...conf, runtimeConfig, prevResult }, call), 7, 'no route to 10.1.2.3')
    expect(host.cni('ADD', { ...conf, prevResult }, call).code).toBe(0)
  })
})
