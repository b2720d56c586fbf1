// SPDX-License-Identifier: Apache-2.0
// The bridge: reused, re-addressed or refused, depending on what is there and whose it is.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectUntouched } from '../../support/allowance.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateWord } from '../../support/state-layout.ts'
import { addressesOf, attach, inPodJson, later, netConf, onHostJson } from '../../support/traffic/pods.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

const ip = (line: string) => runLine(host, `ip ${line}`)
const bridge = () => onHostJson(host, ['-d', 'link', 'show', 'cni0'])[0]
const gateways = () => addressesOf(host, host.path, 'cni0')
const refused = (conf: object, text: string | RegExp) =>
  expectError(host.cni('ADD', conf, { id: 'x', netns: host.pod('x') }), 108, text)

describe('a bridge of somebody else', () => {
  it('is reused: same index, same MAC, in the result too', () => {
    ip('link add cni0 address 0a:00:00:00:00:07 type bridge')
    const ifindex = bridge()?.ifindex
    const pod = attach(host, netConf())
    expect(bridge()).toMatchObject({ ifindex, address: '0a:00:00:00:00:07' })
    expect(pod.result.interfaces[0]?.mac).toBe('0a:00:00:00:00:07')
    expect(gateways()).toEqual(['10.240.0.1/24'])
    expectSilent(later(host, 'CHECK', { conf: netConf(), pod }))
  })

  it('with another IPv4 address is refused with both addresses, and is left alone', () => {
    ip('link add cni0 type bridge')
    ip('addr add 10.9.0.1/16 dev cni0')
    ip('link set cni0 up')
    const before = snapshot(host)
    refused(netConf(), /10\.240\.0\.1\/24.*10\.9\.0\.1\/16/s)
    expect(snapshot(host).links).toBe(before.links)
    expect(snapshot(host).routes).toBe(before.routes)
    expect(gateways()).toEqual(['10.9.0.1/16'])
  })

  it('with another address loses it where forceAddress says so', () => {
    ip('link add cni0 type bridge')
    ip('addr add 10.9.0.1/16 dev cni0')
    attach(host, netConf({ forceAddress: true }))
    expect(gateways()).toEqual(['10.240.0.1/24'])
  })

  it.each([
    ['overlapping', 'fd00:240::9/48', 108],
    ['apart', 'fd00:99::1/64', 0],
  ])('with an IPv6 address that is %s', (_, address, code) => {
    ip('link add cni0 type bridge')
    ip(`-6 addr add ${address} dev cni0`)
    const added = host.cni('ADD', netConf({ podcidr: 'fd00:240::/64' }), { netns: host.pod('a') })
    expect(code === 0 ? added.code : added.json?.code).toBe(code)
    expect(gateways()).toContain(address)
  })
})

describe('a bridge of ours', () => {
  const moved = netConf({ podcidr: '10.99.0.0/24' })

  it('without pods takes the address of a changed configuration (cni#306: a wrong bridge address stays)', () => {
    const pod = attach(host, netConf())
    expectSilent(later(host, 'DEL', { conf: netConf(), pod }))
    attach(host, moved, { id: 'c2' })
    expect(gateways()).toEqual(['10.99.0.1/24'])
  })

  it('with pods does not: refused, and the pods keep their gateway (cni#306: a wrong bridge address stays)', () => {
    const pod = attach(host, netConf())
    const added = host.cni('ADD', moved, { id: 'x', netns: host.pod('x') })
    expectError(added, 110, 'network net is set up with the range 10.240.0.0/24, with 1 pod')
    expect(gateways()).toEqual(['10.240.0.1/24'])
    expectSilent(later(host, 'CHECK', { conf: netConf(), pod }))
    expect(attach(host, netConf(), { id: 'c3' }).address).toBe('10.240.0.3')
  })

  it('may have two networks, each with its gateway, also when the ADD of one makes it again', () => {
    const two = netConf({ name: 'two', podcidr: '10.250.0.0/24' })
    const first = attach(host, netConf(), { id: 'a' })
    const second = attach(host, two, { id: 'b' })
    const areBothFine = () => {
      expect(gateways()).toEqual(['10.240.0.1/24', '10.250.0.1/24'])
      expectSilent(later(host, 'CHECK', { conf: netConf(), pod: first }))
      expectSilent(later(host, 'CHECK', { conf: two, pod: second }))
    }
    areBothFine()
    ip('link del cni0')
    attach(host, two, { id: 'c' })
    areBothFine()
    expect(host.inPod(first.netns, 'ping', ['-c1', '-w10', '10.240.0.1']).code).toBe(0)
  })

  it('that was removed by hand is made again, and the pods that were on it are plugged in', () => {
    const first = attach(host, netConf(), { id: 'a' })
    ip('link del cni0')
    const second = attach(host, netConf(), { id: 'b' })
    expect(host.inPod(first.netns, 'ping', ['-c1', '-w10', second.address]).code).toBe(0)
  })

  it.each(['no port', 'a port of it'])(
    'of another program that has taken its name is refused and left alone, and again: %s',
    (port) => {
      expectSilent(later(host, 'DEL', { conf: netConf(), pod: attach(host, netConf()) }))
      ip('link del cni0')
      ip('link add cni0 address 02:11:11:11:11:11 type bridge')
      ip('addr add 10.244.5.1/24 dev cni0')
      ip('link set cni0 up')
      if (port !== 'no port') {
        ip('link add tap9 type veth peer name tap9-peer')
        ip('link set tap9 master cni0')
      }
      for (const id of ['b', 'c']) {
        const netns = host.pod(id)
        expectError(host.cni('ADD', netConf(), { id, netns }), 108, 'different from 10.240.0.1/24: 10.244.5.1/24')
        expect(gateways()).toEqual(['10.244.5.1/24'])
      }
      const command = (...words: readonly string[]) =>
        expect(host.run('env', [stateWord(host), trestle, ...words]).code, words[0]).toBe(0)
      command('restore')
      command('uninstall', '--apply')
      expect(gateways()).toEqual(['10.244.5.1/24'])
      expect(host.run('ip', ['link', 'show', 'cni0']).stdout).toContain('02:11:11:11:11:11')
    },
  )

  it.each<[string, readonly string[]]>([
    ['made anew', ['ip link del cni0', 'ip link add cni0 type bridge', 'ip addr add 10.240.0.1/24 dev cni0']],
    [
      'given another MAC, and an address',
      ['ip link set cni0 address 02:22:22:22:22:22', 'ip addr add fd09::1/64 dev cni0'],
    ],
  ])('under live pods, %s: has its MAC again', (_, lines) => {
    const mac = () => /link\/ether (\S+)/.exec(host.run('ip', ['link', 'show', 'cni0']).stdout)?.[1]
    const pod = attach(host, netConf(), { id: 'a' })
    const before = mac()
    for (const line of lines) runLine(host, line)
    attach(host, netConf(), { id: 'b' })
    expect(mac()).toBe(before)
    expectSilent(later(host, 'CHECK', { conf: netConf(), pod }))
  })

  it.each(['all rules with them', 'the bridges alone'])('of another network is made again, too: %s', (what) => {
    const two = netConf({ name: 'two', bridge: 'br-two', podcidr: '10.250.0.0/24' })
    attach(host, netConf(), { id: 'a' })
    const other = attach(host, two, { id: 'b' })
    const third = netConf({ name: 'three', bridge: 'br-two', podcidr: '10.251.0.0/24', mtu: 1400 })
    const beside = attach(host, third, { id: 'd' })
    for (const name of ['cni0', 'br-two']) ip(`link del ${name}`)
    if (what === 'all rules with them') host.run('nft', ['flush', 'ruleset'])
    attach(host, netConf(), { id: 'c' })
    expect(host.inPod(other.netns, 'ping', ['-c1', '-w10', '10.250.0.1']).code).toBe(0)
    expect(host.inPod(beside.netns, 'ping', ['-c1', '-w10', '10.251.0.1']).code).toBe(0)
    expectSilent(later(host, 'CHECK', { conf: two, pod: other }))
  })
})

describe('a link of that name', () => {
  it.each([
    ['a veth', 'link add cni0 type veth peer name far'],
    ['a macvlan', 'link add link far name cni0 type macvlan mode bridge'],
  ])('that is %s is refused and left alone', (_, line) => {
    if (line.includes('macvlan')) ip('link add far type veth peer name other')
    const made = host.run('ip', line.split(' '))
    expect(made.code, made.stderr).toBe(0)
    const before = snapshot(host)
    refused(netConf(), 'not a bridge')
    expectUntouched(host, { ...before, state: snapshot(host).state, sysctls: snapshot(host).sysctls })
  })
})

describe('keys of upstream', () => {
  it('isGateway and isDefaultGateway decide about address, route and forwarding', () => {
    const ipam = { type: 'host-local', subnet: '10.240.0.0/24' }
    const bare = netConf({ podcidr: undefined, ipam })
    const forwarding = () => host.run('sysctl', ['-n', 'net.ipv4.ip_forward']).stdout
    expect(host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=0']).code).toBe(0)
    const pod = attach(host, bare, { id: 'a' })
    expect(gateways()).toEqual([])
    expect(pod.result.routes).toBeUndefined()
    expect(forwarding()).toBe('0\n')
    attach(host, { ...bare, isGateway: true }, { id: 'b' })
    expect(gateways()).toEqual(['10.240.0.1/24'])
    expect(forwarding()).toBe('1\n')
    const last = attach(host, { ...bare, isDefaultGateway: true }, { id: 'c' })
    expect(last.result.routes).toEqual([{ dst: '0.0.0.0/0', gw: '10.240.0.1' }])
  })

  it('promiscMode, hairpinMode, portIsolation reach the kernel', () => {
    const pod = attach(host, netConf({ promiscMode: true, hairpinMode: false, portIsolation: true }))
    expect(bridge()?.promiscuity).toBeGreaterThan(0)
    const linkinfo = onHostJson(host, ['-d', 'link', 'show', pod.hostLink])[0]?.linkinfo
    expect(linkinfo?.info_slave_data).toMatchObject({ hairpin: false, isolated: true })
  })

  it('disableContainerInterface leaves the pod end down and without addresses', () => {
    const conf = netConf({ podcidr: undefined, disableContainerInterface: true })
    const pod = attach(host, conf)
    expect(inPodJson(host, pod.netns, ['addr', 'show', 'eth0'])[0]).toMatchObject({ operstate: 'DOWN', addr_info: [] })
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectError(
      host.cni('ADD', netConf({ disableContainerInterface: true }), { id: 'b', netns: host.pod('b') }),
      7,
      'IPAM',
    )
  })

  it('a static address comes with its gateway, routes and dns', () => {
    const ipam = {
      type: 'static',
      addresses: [{ address: '10.10.0.9/24', gateway: '10.10.0.254' }, { address: 'fd00:10::9/64' }],
      routes: [{ dst: '10.11.0.0/16' }],
      dns: { nameservers: ['10.10.0.53'] },
    }
    const conf = netConf({ podcidr: undefined, ipam, isGateway: true })
    const pod = attach(host, conf)
    expect(addressesOf(host, pod.netns)).toEqual(['10.10.0.9/24', 'fd00:10::9/64'])
    expect(pod.result).toMatchObject({ routes: [{ dst: '10.11.0.0/16' }], dns: { nameservers: ['10.10.0.53'] } })
    expect(host.inPod(pod.netns, 'ip', ['route', 'show', '10.11.0.0/16']).stdout).toContain('via 10.10.0.254')
    expect(gateways()).toEqual(['10.10.0.254/24', 'fd00:10::1/64'])
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
  })
})
