// SPDX-License-Identifier: Apache-2.0
// Kernel settings of the pod and of the host: those that are asked for, and those that a network needs.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { hostLinkName } from '../../support/link-names.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { addressesOf, attach, later, netConf } from '../../support/traffic/pods.ts'
import { addUplink, pings } from '../../support/traffic/traffic.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

const dual = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })

describe('settings', () => {
  it.each(['1024 2000', '1024\t2000'])('of several numbers are taken as %j', (range) => {
    const conf = netConf({ tuning: { sysctl: { 'net.ipv4.ip_local_port_range': range } } })
    const pod = attach(host, conf)
    expect(host.inPod(pod.netns, 'sysctl', ['-n', 'net.ipv4.ip_local_port_range']).stdout).toBe('1024\t2000\n')
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('of an interface with a dot in its name are set and found again', () => {
    const conf = netConf({ tuning: { sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1' } } })
    const pod = attach(host, conf, { ifName: 'eth0.10' })
    expect(host.inPod(pod.netns, 'sysctl', ['-n', 'net/ipv4/conf/eth0.10/arp_filter']).stdout).toBe('1\n')
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it.each(['e*', 'eth?', 'et[h]0'])('of an interface called %s are not those of eth0', (ifName) => {
    const conf = netConf({ tuning: { sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1' } } })
    const { netns } = attach(host, netConf({ name: 'other', podcidr: '10.250.0.0/24', bridge: 'cni1' }), { id: 'c1' })
    const pod = attach(host, conf, { netns, ifName })
    const filterOf = (name: string) => host.inPod(netns, 'cat', [`/proc/sys/net/ipv4/conf/${name}/arp_filter`]).stdout
    expect([filterOf('eth0'), filterOf(ifName)]).toEqual(['0\n', '1\n'])
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  const sysctl = (key: string) => host.run('sysctl', ['-n', key]).stdout.trim()

  it('and limits are not set where the links fail, and no tool waits for them', async () => {
    const conf = netConf({
      bandwidth: { ingressRate: 1e6, egressRate: 1e6 },
      tuning: { sysctl: { 'net.core.somaxconn': '77' } },
    })
    attach(host, conf)
    const netns = host.pod('taken')
    expect(host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'bridge']).code).toBe(0)
    const before = snapshot(host)
    const ofPod = () => host.inPod(netns, 'sysctl', ['-n', 'net.core.somaxconn']).stdout
    const wasOfPod = ofPod()
    expectError(host.cni('ADD', conf, { netns, id: 'taken' }), 4, 'eth0')
    expectNothingLeft(host, before)
    expect(ofPod()).toBe(wasOfPod)
    // What has been told to end may take a moment.
    for (const [from, name] of [[netns, host.name] as const, [host.path, `${host.name}-taken`] as const]) {
      const pids = () => host.inPod(from, 'ip', ['netns', 'pids', name]).stdout
      await expect.poll(pids, { timeout: 20_000 }).toBe('')
    }
  })

  it('that only the node has are refused', () => {
    const conf = netConf({ tuning: { sysctl: { 'net.core.rmem_max': '1', 'net.core.somaxconn': '200' } } })
    const netns = host.pod('a')
    const before = snapshot(host)
    expectError(host.cni('ADD', conf, { netns }), 100, 'net.core.rmem_max')
    expectNothingLeft(host, before)
  })

  it('keep router advertisements of the uplink when forwarding is switched on', () => {
    expect(host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=0']).code).toBe(0)
    addUplink(host)
    expect(sysctl('net.ipv6.conf.up0.accept_ra')).toBe('1')
    attach(host, dual)
    expect(sysctl('net.ipv6.conf.all.forwarding')).toBe('1')
    expect(sysctl('net.ipv4.ip_forward')).toBe('1')
    expect(sysctl('net.ipv6.conf.up0.accept_ra')).toBe('2')
  })

  it("leave a pod's link alone that another ADD has just made", () => {
    // Its accept_ra is 1 from birth, until that ADD writes 0.
    const others = hostLinkName({ network: 'other', containerId: 'b', ifName: 'eth0' })
    host.run('ip', ['link', 'add', others, 'type', 'veth', 'peer', 'name', 'far'])
    attach(host, dual)
    expect(sysctl(`net.ipv6.conf.${others}.accept_ra`)).toBe('1')
  })

  it('leave an uplink that ignores router advertisements as it is', () => {
    addUplink(host)
    host.run('sysctl', ['-qw', 'net.ipv6.conf.up0.accept_ra=0'])
    attach(host, dual)
    expect(sysctl('net.ipv6.conf.up0.accept_ra')).toBe('0')
  })

  it('switch on forwarding for the families of the network only, and not for layer 2', () => {
    for (const key of ['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding'])
      expect(host.run('sysctl', ['-qw', `${key}=0`]).code).toBe(0)
    attach(host, netConf({ podcidr: undefined }), { id: 'l2' })
    expect([sysctl('net.ipv4.ip_forward'), sysctl('net.ipv6.conf.all.forwarding')]).toEqual(['0', '0'])
    attach(host, netConf({ name: 'v4', bridge: 'br-v4' }))
    expect([sysctl('net.ipv4.ip_forward'), sysctl('net.ipv6.conf.all.forwarding')]).toEqual(['1', '0'])
  })

  it('make the bridge ignore router advertisements of pods', () => {
    attach(host, dual)
    expect(sysctl('net.ipv6.conf.cni0.accept_ra')).toBe('0')
  })

  it('of a pod without IPv6 do not stop an IPv6 address', () => {
    const netns = host.pod('a')
    host.inPod(netns, 'sysctl', ['-qw', 'net.ipv6.conf.all.disable_ipv6=1', 'net.ipv6.conf.default.disable_ipv6=1'])
    const pod = attach(host, dual, { netns })
    expect(addressesOf(host, netns)).toEqual(['10.240.0.2/24', 'fd00:240::2/64'])
    expect(pings(host, netns, 'fd00:240::1')).toBe(true)
    expectSilent(later(host, 'CHECK', { conf: dual, pod }))
  })
})
