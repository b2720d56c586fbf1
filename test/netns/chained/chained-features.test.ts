// SPDX-License-Identifier: Apache-2.0
// trestle after the upstream ptp: each feature acts on the interface that ptp made, is checked, and is gone
// after DEL, also where the interface stays.

import { rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, type Snapshot, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateFiles } from '../../support/state-layout.ts'
import { inPodJson } from '../../support/traffic/pods.ts'
import { addUplink, outside, seenBy, serve } from '../../support/traffic/traffic.ts'
import {
  attachChain,
  attachFirst,
  type Chain,
  checkSecond,
  detachChain,
  detachSecond,
  missingPlugins,
} from '../../support/upstream.ts'

const missing = missingPlugins(['ptp', 'host-local'])
const ranges = [[{ subnet: '10.70.0.0/24' }], [{ subnet: 'fd00:70::/64' }]]
const port = { hostPort: 8080, containerPort: 8080, protocol: 'tcp' }

/** Reservations of its own for each test. */
function ptp() {
  const routes = [{ dst: '0.0.0.0/0' }, { dst: '::/0' }]
  const ipam = { type: 'host-local', dataDir: `/var/lib/cni/${host.name}`, ranges, routes }
  return { cniVersion: '1.0.0', name: 'net', type: 'ptp', ipam }
}

function chainOf(more: object): Chain {
  return { first: ptp(), second: { cniVersion: '1.0.0', name: 'net', type: 'trestle', ...more } }
}

let host: Host
let internet: string
let before: Snapshot
beforeEach(() => {
  host = openHost()
  internet = addUplink(host)
  // ptp switches it on, and the kernel adds anycast routes then.
  host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'])
  before = snapshot(host)
})
afterEach(() => host.close())

function linkInPod(netns: string): object {
  const [link] = inPodJson(host, netns, ['-d', 'link', 'show', 'dev', 'eth0'])
  const { address, mtu, promiscuity, flags, txqlen } = link as unknown as Record<string, unknown>
  return { address, mtu, promiscuity, allmulti: (flags as string[]).includes('ALLMULTI'), txqlen }
}

function qdiscs(dev: string): string {
  return host.run('tc', ['qdisc', 'show', 'dev', dev]).stdout
}

describe.skipIf(missing)(`chained after ptp${missing ? ` (${missing})` : ''}`, () => {
  it('host ports are reached from outside, from the node and from the pod itself, and end with DEL', async () => {
    const chain = chainOf({ runtimeConfig: { portMappings: [port] } })
    const pod = attachChain(host, chain)
    // Debian 12's plugins (1.1.1) print an empty dns as well.
    expect(pod.result).toEqual({ ...pod.own, dns: pod.result.dns })
    const stop = await serve(pod.netns)
    try {
      expect(seenBy(host, internet, outside.node4)).toBe('192.0.2.2')
      // ptp's IPv6 works once its own end has passed DAD.
      expect(seenBy(host, internet, outside.node6)).toBe('2001:db8:1::2')
      expect(seenBy(host, host.path, '127.0.0.1')).not.toBe('')
      expect(seenBy(host, pod.netns, outside.node4)).not.toBe('')
      expectSilent(checkSecond(host, chain, pod))
      expectError(host.cni('ADD', { ...chain.second, prevResult: pod.own }, pod.call), 103)
      detachSecond(host, chain, pod)
      expect(seenBy(host, internet, outside.node4, 2000)).toBe('')
    } finally {
      stop()
    }
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })

  it('CHECK names a host port that is gone', () => {
    const chain = chainOf({ runtimeConfig: { portMappings: [port] } })
    const pod = attachChain(host, chain)
    host.run('nft', ['flush', 'map', 'inet', 'trestle', 'anyports4'])
    expectError(checkSecond(host, chain, pod), 107, /8080/)
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })

  it('a host port that another pod has is refused, and nothing of the call stays', () => {
    const chain = chainOf({ runtimeConfig: { portMappings: [port] } })
    const pod = attachChain(host, chain)
    const other = attachFirst(host, ptp(), { id: 'c2' })
    expectError(host.cni('ADD', { ...chain.second, prevResult: other.own }, other.call), 104, /8080/)
    expectSilent(checkSecond(host, chain, pod))
    for (const each of [pod, other]) detachChain(host, chain, each)
    expectNothingLeft(host, before)
  })

  it('bandwidth is on the host end of the veth, its ifb in the result, and both end with DEL', () => {
    const rates = { ingressRate: 8_000_000, ingressBurst: 800_000, egressRate: 4_000_000, egressBurst: 400_000 }
    const chain = chainOf({ runtimeConfig: { bandwidth: rates } })
    const pod = attachChain(host, chain)
    const veth = pod.own.interfaces.find((each) => !each.sandbox)?.name ?? ''
    const ifb = pod.result.interfaces.at(-1)?.name ?? ''
    expect(pod.result.interfaces.slice(0, -1)).toEqual(pod.own.interfaces)
    expect(ifb).toMatch(/^ifb/)
    expect(qdiscs(veth)).toMatch(/tbf 1: root .*rate 8Mbit[\s\S]*ingress ffff:/)
    expect(qdiscs(ifb)).toMatch(/rate 4Mbit/)
    expectSilent(checkSecond(host, chain, pod))
    host.run('tc', ['qdisc', 'del', 'dev', veth, 'root'])
    expectError(checkSecond(host, chain, pod), 107, `bandwidth limit is missing on ${veth}`)
    detachSecond(host, chain, pod)
    expect(qdiscs(veth)).not.toMatch(/tbf|ingress/)
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })

  it('tuning changes link and sysctls, is in the result, and is put back by DEL but for the sysctls', () => {
    const mac = '0a:00:00:00:70:01'
    const sysctl = { 'net.ipv4.conf.IFNAME.arp_filter': '1' }
    const chain = chainOf({ tuning: { mac, mtu: 1400, promisc: true, allmulti: true, txQLen: 500, sysctl } })
    const first = attachFirst(host, ptp())
    const was = linkInPod(first.netns)
    const added = host.cni('ADD', { ...chain.second, 'x.test/more': 1, prevResult: first.own }, first.call)
    expect(added.json?.interfaces.find((each) => each.sandbox)).toMatchObject({ name: 'eth0', mac, mtu: 1400 })
    const pod = { ...first, result: added.json ?? first.own }
    expect(linkInPod(pod.netns)).toEqual({ address: mac, mtu: 1400, promiscuity: 1, allmulti: true, txqlen: 500 })
    expect(host.run('ping', ['-c1', '-w10', pod.address4]).code).toBe(0)
    expectSilent(checkSecond(host, chain, pod))
    host.inPod(pod.netns, 'ip', ['link', 'set', 'eth0', 'mtu', '1300'])
    expectError(checkSecond(host, chain, pod), 107, 'MTU of eth0 is 1300, not 1400')
    detachSecond(host, chain, pod)
    expect(linkInPod(pod.netns)).toEqual(was)
    expect(host.inPod(pod.netns, 'sysctl', ['-n', 'net.ipv4.conf.eth0.arp_filter']).stdout.trim()).toBe('1')
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })

  it('an ADD that fails half way puts the link back', () => {
    const chain = chainOf({ tuning: { mtu: 1400, promisc: true, sysctl: { 'net.ipv4.conf.IFNAME.no_such_key': '1' } } })
    const pod = attachFirst(host, ptp())
    const was = linkInPod(pod.netns)
    expectError(host.cni('ADD', { ...chain.second, prevResult: pod.own }, pod.call), 100, 'no_such_key')
    expect(linkInPod(pod.netns)).toEqual(was)
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })

  it('ipMasq masquerades the pod', async () => {
    const chain = chainOf({ ipMasq: true })
    const pod = attachChain(host, chain)
    const stop = await serve(internet)
    try {
      expect(seenBy(host, pod.netns, outside.far4)).toBe(outside.node4)
      // ptp's IPv6 works once its own end has passed DAD.
      expect(seenBy(host, pod.netns, outside.far6)).toBe(outside.node6)
    } finally {
      stop()
    }
    expectSilent(checkSecond(host, chain, pod))
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })

  it('without its state DEL takes the ifb', () => {
    const chain = chainOf({ bandwidth: { egressRate: 4_000_000, egressBurst: 400_000 } })
    const pod = attachChain(host, chain)
    rmSync(stateFiles(host).networks, { recursive: true })
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })

  it('without its namespace DEL takes everything on the host', () => {
    const rates = { egressRate: 4_000_000, egressBurst: 400_000 }
    const chain = chainOf({ runtimeConfig: { portMappings: [port], bandwidth: rates }, tuning: { mtu: 1400 } })
    const pod = attachChain(host, chain)
    host.removePod(pod.netns)
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })

  it('an interface that is not in the sandbox is refused', () => {
    const chain = chainOf({ tuning: { mtu: 1400 } })
    const pod = attachFirst(host, ptp())
    const call = { ...pod.call, ifName: 'eth7' }
    expectError(host.cni('ADD', { ...chain.second, prevResult: pod.own }, call), 4, 'eth7')
    detachChain(host, chain, pod)
    expectNothingLeft(host, before)
  })
})
