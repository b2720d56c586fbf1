// SPDX-License-Identifier: Apache-2.0
// trestle after plugins whose pods share a link of the host: the upstream bridge and macvlan.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { filterBridged } from '../../support/ask.ts'
import { type Host, openHost, type Snapshot, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { addUplink, outside, pings, pingsOnce, seenBy, serve } from '../../support/traffic/traffic.ts'
import {
  attachChain,
  attachFirst,
  type Chain,
  type ChainedPod,
  checkSecond,
  detachChain,
  detachSecond,
  missingPlugins,
} from '../../support/upstream.ts'

const port = { hostPort: 8080, containerPort: 8080, protocol: 'tcp' }
const ports = { runtimeConfig: { portMappings: [port] } }

let host: Host
let internet: string
let before: Snapshot
beforeEach(() => {
  host = openHost()
  internet = addUplink(host)
  host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'])
})
afterEach(() => host.close())

function secondOf(more: object): object {
  return { cniVersion: '1.0.0', name: 'net', type: 'trestle', ...more }
}

function ipamOf(subnet: string) {
  const dataDir = `/var/lib/cni/${host.name}`
  return { type: 'host-local', dataDir, ranges: [[{ subnet }]], routes: [{ dst: '0.0.0.0/0' }] }
}

function bridgeOf(more: object = {}) {
  const own = { type: 'bridge', bridge: 'br-ref', isGateway: true, hairpinMode: true, ipam: ipamOf('10.71.0.0/24') }
  return { cniVersion: '1.0.0', name: 'net', ...own, ...more }
}

function attachTwo(chain: Chain): readonly [ChainedPod, ChainedPod] {
  return [attachChain(host, chain, { id: 'c1' }), attachChain(host, chain, { id: 'c2' })]
}

const noBridge = missingPlugins(['bridge', 'host-local'])

describe.skipIf(noBridge)(`chained after bridge${noBridge ? ` (${noBridge})` : ''}`, () => {
  beforeEach(() => {
    before = snapshot(host)
  })

  // A neighbour's address is kept where bridged packets are filtered: the answer comes back through the node.
  it.each([
    [true, '10.71.0.2'],
    [false, '10.71.0.1'],
  ])('a host port is reached by all, bridge-nf-call-iptables %s', async (isOn, neighbour) => {
    filterBridged(host, isOn)
    const chain = { first: bridgeOf(), second: secondOf(ports) }
    const other = attachFirst(host, bridgeOf(), { id: 'c2' })
    const pod = attachChain(host, chain)
    const stop = await serve(pod.netns)
    try {
      expect(seenBy(host, internet, outside.node4)).toBe('192.0.2.2')
      expect(seenBy(host, other.netns, outside.node4)).toBe(neighbour)
      expect(seenBy(host, pod.netns, outside.node4)).toBe('10.71.0.1')
      expect(seenBy(host, host.path, '127.0.0.1')).not.toBe('')
    } finally {
      stop()
    }
    expectSilent(checkSecond(host, chain, pod))
    for (const each of [pod, other]) detachChain(host, chain, each)
    expectNothingLeft(host, before)
  })

  it('ingressPolicy isolated keeps pods of the bridge apart, until an ADD without it', async () => {
    const chain = { first: bridgeOf(), second: secondOf({ firewall: { ingressPolicy: 'isolated' } }) }
    const [pod, other] = attachTwo(chain)
    expect(pingsOnce(host, pod.netns, other.address4)).toBe(false)
    expect(pings(host, pod.netns, '10.71.0.1')).toBe(true)
    expectSilent(checkSecond(host, chain, pod))
    for (const each of [pod, other]) detachSecond(host, chain, each)
    expect(host.run('bridge', ['-d', 'link', 'show']).stdout).not.toContain('isolated on')
    const open = { first: bridgeOf(), second: secondOf({}) }
    const third = attachChain(host, open, { id: 'c3' })
    expect(pings(host, pod.netns, third.address4)).toBe(true)
    expect(pings(host, pod.netns, other.address4)).toBe(true)
    for (const each of [pod, other]) detachChain(host, chain, each)
    detachChain(host, open, third)
    expectNothingLeft(host, before)
  })

  it('ingressPolicy same-bridge keeps bridges apart', () => {
    const second = secondOf({ firewall: { ingressPolicy: 'same-bridge' } })
    const chain = { first: bridgeOf(), second }
    const more = { name: 'far', bridge: 'br-far', ipam: ipamOf('10.72.0.0/24') }
    const far = { first: bridgeOf(more), second: { ...second, name: 'far' } }
    const [pod, other] = attachTwo(chain)
    const away = attachChain(host, far, { id: 'c3' })
    expect(pings(host, pod.netns, other.address4)).toBe(true)
    expect(pingsOnce(host, pod.netns, away.address4)).toBe(false)
    for (const each of [pod, other]) detachChain(host, chain, each)
    detachChain(host, far, away)
    expectNothingLeft(host, before)
  })

  it('sets the rules up again after a flush', () => {
    const chain = { first: bridgeOf(), second: secondOf({ ...ports, ipMasq: true }) }
    const pod = attachChain(host, chain)
    host.run('nft', ['flush', 'ruleset'])
    expectError(checkSecond(host, chain, pod), 107, 'nft table inet trestle is missing')
    const plain = { first: bridgeOf(), second: secondOf({ ipMasq: true }) }
    const other = attachChain(host, plain, { id: 'c2' })
    expectSilent(checkSecond(host, chain, pod))
    detachChain(host, chain, pod)
    detachChain(host, plain, other)
    expectNothingLeft(host, before)
  })
})

const noMacvlan = missingPlugins(['macvlan', 'host-local'])

describe.skipIf(noMacvlan)(`chained after macvlan${noMacvlan ? ` (${noMacvlan})` : ''}`, () => {
  const macvlan = () => ({
    ...{ cniVersion: '1.0.0', name: 'net', type: 'macvlan', master: 'br-mport', mode: 'bridge' },
    ipam: ipamOf('10.73.0.0/24'),
  })

  beforeEach(() => {
    // The node reaches its macvlan pods by a bridge that one end of a veth is plugged into; the other is the master.
    const steps = [
      'link add br-mv up type bridge',
      'addr add 10.73.0.1/24 dev br-mv',
      'link add mvport master br-mv up type veth peer name br-mport',
      'link set br-mport up',
    ]
    for (const step of steps) expect(host.run('ip', step.split(' ')).code, step).toBe(0)
    before = snapshot(host)
  })

  it('host ports work by address', async () => {
    const chain = { first: macvlan(), second: secondOf(ports) }
    const pod = attachChain(host, chain)
    const stop = await serve(pod.netns)
    try {
      expect(seenBy(host, internet, outside.node4)).toBe('192.0.2.2')
    } finally {
      stop()
    }
    expectSilent(checkSecond(host, chain, pod))
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })

  it('bandwidth and an ingressPolicy are refused before anything changes', () => {
    const pod = attachFirst(host, macvlan())
    const there = snapshot(host)
    for (const more of [
      { bandwidth: { ingressRate: 8_000_000, ingressBurst: 800_000 }, tuning: { mtu: 1400 } },
      { firewall: { ingressPolicy: 'isolated' } },
    ]) {
      const answer = host.cni('ADD', { ...secondOf(more), prevResult: pod.own }, pod.call)
      expectError(answer, 7, /bandwidth: eth0 has no veth peer|ingressPolicy: "isolated" needs a veth/)
    }
    expectNothingLeft(host, there)
    expect(host.inPod(pod.netns, 'ip', ['link', 'show', 'eth0']).stdout).toContain('mtu 1500')
    detachChain(host, { first: macvlan(), second: secondOf({}) }, pod)
  })

  it('tuning and sbr act on it', () => {
    const mac = '0a:00:00:00:73:01'
    const chain = { first: macvlan(), second: secondOf({ tuning: { mac, mtu: 1400 }, sbr: {} }) }
    const pod = attachChain(host, chain, { ifName: 'net1' })
    expect(host.inPod(pod.netns, 'ip', ['link', 'show', 'net1']).stdout).toMatch(/mtu 1400[\s\S]*0a:00:00:00:73:01/)
    expect(host.inPod(pod.netns, 'ip', ['route', 'get', '192.0.2.9', 'from', pod.address4]).stdout).toContain('net1')
    expect(host.run('ping', ['-c1', '-w10', pod.address4]).code).toBe(0)
    expectSilent(checkSecond(host, chain, pod))
    detachSecond(host, chain, pod)
    expect(host.inPod(pod.netns, 'ip', ['route', 'show', 'default']).stdout).toContain('dev net1')
    expect(host.inPod(pod.netns, 'ip', ['rule', 'show']).stdout).not.toContain(pod.address4)
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })
})
