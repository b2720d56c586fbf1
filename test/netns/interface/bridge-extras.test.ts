// SPDX-License-Identifier: Apache-2.0
// The bridge's rarer keys, by what they do to frames and links: macspoofchk, portIsolation, promiscMode,
// enabledad, removeWhenEmpty, forceAddress.

import { readdirSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { openFaults, type ToolCall } from '../../support/faults/faults.ts'
import { type Call, type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateOf } from '../../support/state-layout.ts'
import { addressesOf, attach, ipamConf, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { pings, pingsOnce } from '../../support/traffic/traffic.ts'

const gateway = '10.240.0.1'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

const isThere = (dev: string) => host.run('ip', ['link', 'show', dev]).code === 0
const inPod = (pod: Pod, line: string) => {
  const done = host.inPod(pod.netns, 'ip', line.split(' '))
  expect(done.code, `${line}: ${done.stderr}`).toBe(0)
}
const onHost = (line: string) => runLine(host, `ip ${line}`)

describe('macspoofchk', () => {
  /** A second interface over eth0 whose frames have a MAC of its own, as a pod with CAP_NET_ADMIN makes it. */
  const spoof = (pod: Pod, address: string) => {
    inPod(pod, 'link add mv0 link eth0 address 0a:00:00:00:00:99 type macvlan mode bridge')
    inPod(pod, `addr add ${address}/24 dev mv0`)
    inPod(pod, 'link set mv0 up')
    inPod(pod, `route replace ${gateway} dev mv0 src ${address}`)
  }

  it('drops frames with another MAC, which get through without it', () => {
    const guarded = attach(host, netConf({ macspoofchk: true }), { id: 'guarded' })
    const free = attach(host, netConf(), { id: 'free' })
    for (const pod of [guarded, free]) expect(pings(host, pod.netns, gateway)).toBe(true)
    spoof(free, '10.240.0.201')
    expect(pings(host, free.netns, gateway)).toBe(true)
    spoof(guarded, '10.240.0.202')
    expect(pingsOnce(host, guarded.netns, gateway)).toBe(false)
    inPod(guarded, 'link del mv0')
    expect(pings(host, guarded.netns, gateway)).toBe(true)
  })

  it('drops everything of a pod that changes its MAC, until it changes back', () => {
    const conf = netConf({ macspoofchk: true })
    const pod = attach(host, conf)
    const own = pod.result.interfaces[2]?.mac ?? ''
    inPod(pod, 'link set eth0 address 0a:00:00:00:00:98')
    expect(pingsOnce(host, pod.netns, gateway)).toBe(false)
    inPod(pod, `link set eth0 address ${own}`)
    expect(pings(host, pod.netns, gateway)).toBe(true)
  })

  it('leaves no element behind', () => {
    const conf = netConf({ macspoofchk: true })
    const pod = attach(host, conf)
    const table = () => host.run('nft', ['list', 'table', 'bridge', 'trestle']).stdout
    expect(table()).toContain(pod.hostLink)
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(table()).not.toContain('veth')
  })
})

describe('portIsolation', () => {
  it('keeps isolated pods from each other, not from the gateway and the others', () => {
    const isolated = netConf({ portIsolation: true })
    const [a, b] = [attach(host, isolated, { id: 'a' }), attach(host, isolated, { id: 'b' })]
    const open = attach(host, netConf(), { id: 'open' })
    expect(pingsOnce(host, a.netns, b.address)).toBe(false)
    for (const pod of [a, b]) {
      expect(pings(host, pod.netns, gateway)).toBe(true)
      expect(pings(host, pod.netns, open.address)).toBe(true)
      expectSilent(later(host, 'CHECK', { conf: isolated, pod }))
    }
  })
})

describe('promiscMode', () => {
  const conf = netConf({ promiscMode: true })
  const flags = () => host.run('ip', ['link', 'show', 'cni0']).stdout

  it('makes the bridge promiscuous; CHECK sees it lost, the next ADD brings it back', () => {
    const pod = attach(host, conf)
    expect(flags()).toContain('PROMISC')
    expectSilent(later(host, 'CHECK', { conf, pod }))
    onHost('link set cni0 promisc off')
    expectError(later(host, 'CHECK', { conf, pod }), 107, /^cni0 is not promiscuous$/m)
    attach(host, conf, { id: 'next' })
    expect(flags()).toContain('PROMISC')
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('is off without it, however many ports there are', () => {
    attach(host, netConf())
    expect(flags()).not.toContain('PROMISC')
  })
})

describe('enabledad', () => {
  const conf = ipamConf(
    { type: 'static', addresses: [{ address: 'fd00:240::5/64' }] },
    { enabledad: true, isDefaultGateway: false },
  )

  it('waits until the address is known to be free', () => {
    const pod = attach(host, conf)
    const shown = host.inPod(pod.netns, 'ip', ['-6', 'addr', 'show', 'dev', 'eth0']).stdout
    expect(shown).toContain('fd00:240::5/64')
    expect(shown).not.toMatch(/fd00:240::5.*(tentative|dadfailed|nodad)/)
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('works for a routed pod', () => {
    const routed = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'], mode: 'ptp', enabledad: true })
    const pod = attach(host, routed)
    expect(pings(host, pod.netns, 'fd00:240::1')).toBe(true)
    expectSilent(later(host, 'CHECK', { conf: routed, pod }))
  })

  it('refuses an address that another machine on the bridge has, and undoes the pod', () => {
    const first = attach(host, conf, { id: 'first' })
    const before = snapshot(host)
    const netns = host.pod('second')
    const refused = host.cni('ADD', { ...conf, allowOverlap: true }, { id: 'second', netns })
    // The same address has the same MAC, so the link-local address may be the one that is found out.
    expectError(
      refused,
      100,
      /^(fd00:240::5|fe80::[0-9a-f:]+) on eth0 is in use by another machine \[duplicate-address\]$/m,
    )
    expect(host.inPod(netns, 'ip', ['link', 'show', 'eth0']).code).not.toBe(0)
    expectNothingLeft(host, before)
    expectSilent(later(host, 'CHECK', { conf, pod: first }))
  })
})

describe('removeWhenEmpty', () => {
  const conf = (name: string, podcidr: string) => netConf({ name, podcidr, removeWhenEmpty: true })
  const one = conf('one', 'fd00:1::/64')
  const two = conf('two', 'fd00:2::/64')

  it('keeps a bridge that another network uses, and removes it with the last pod of both (cni#306: a bridge is never removed)', () => {
    const [first, second] = [attach(host, one, { id: 'a' }), attach(host, two, { id: 'b' })]
    expectSilent(later(host, 'DEL', { conf: one, pod: first }))
    expectSilent(later(host, 'CHECK', { conf: two, pod: second }))
    expect(pings(host, second.netns, 'fd00:2::1')).toBe(true)
    expect(host.run('nft', ['list', 'set', 'inet', 'trestle', 'masq6']).stdout).not.toContain('fd00:1::')
    expectSilent(later(host, 'DEL', { conf: two, pod: second }))
    expect(isThere('cni0')).toBe(false)
  })

  it('leaves a bridge that it did not make', () => {
    for (const line of ['link add cni0 type bridge', 'addr add 10.240.0.1/24 dev cni0']) onHost(line)
    const conf = netConf({ removeWhenEmpty: true })
    const pod = attach(host, conf)
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(addressesOf(host, host.path, 'cni0')).toContain('10.240.0.1/24')
  })

  it('takes the guard of its host ports along', () => {
    const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }]
    const mapped = { ...conf('ports', '10.240.0.0/24'), runtimeConfig: { portMappings } }
    const pod = attach(host, mapped)
    const guarded = () => host.run('nft', ['list', 'set', 'inet', 'trestle', 'loopback']).stdout.includes('cni0')
    expect(guarded()).toBe(true)
    expectSilent(later(host, 'DEL', { conf: mapped, pod }))
    expect(guarded()).toBe(false)
  })

  it('leaves nothing of an ADD that fails on an interface of the pod', () => {
    const before = snapshot(host)
    const [id, netns] = ['c1', host.pod('taken')]
    host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other'])
    expectError(host.cni('ADD', two, { id, netns }), 4)
    expect(isThere('cni0')).toBe(false)
    for (const sent of [netns, '']) expectSilent(host.cni('DEL', two, { id, netns: sent }))
    expectNothingLeft(host, before)
  })

  it('keeps a bridge with a port of somebody else', () => {
    const pod = attach(host, one)
    onHost('link add theirs type veth peer name theirs1')
    onHost('link set theirs master cni0')
    expectSilent(later(host, 'DEL', { conf: one, pod }))
    expect(isThere('cni0')).toBe(true)
  })

  it('is finished by the next DEL where one was killed at any of its processes', () => {
    const faults = openFaults()
    try {
      const killed = (call: Call, at?: Pick<ToolCall, 'tool' | 'nth'>) => {
        faults.reset(at, { kind: 'kill-before' })
        return host.cni('DEL', one, { ...call, env: { PATH: faults.path } })
      }
      expectSilent(killed(attach(host, one, { id: 'c0' }).call))
      // The first nsenter is the one that starts trestle on this node.
      const calls = faults.seen().filter(({ tool }) => tool !== 'nsenter')
      expect(calls.length).toBeGreaterThan(2)
      for (const [at, fault] of calls.entries()) {
        const pod = attach(host, one, { id: `c${at + 1}` })
        expect(killed(pod.call, fault).code).not.toBe(0)
        expectSilent(host.cni('DEL', one, pod.call))
        expect(isThere('cni0'), `${fault.tool} ${fault.nth}`).toBe(false)
        expect(readdirSync(stateOf(host, 'one').directory).filter((name) => name.endsWith('.json'))).toEqual([])
      }
    } finally {
      faults.close()
    }
  })

  it('makes it all again for the next pod', () => {
    expectSilent(later(host, 'DEL', { conf: one, pod: attach(host, one) }))
    expect(isThere('cni0')).toBe(false)
    const pod = attach(host, one, { id: 'next' })
    expect(pings(host, pod.netns, 'fd00:1::1')).toBe(true)
    expectSilent(later(host, 'CHECK', { conf: one, pod }))
  })
})

describe('forceAddress', () => {
  const other = netConf({ name: 'other', podcidr: '10.250.0.0/24', forceAddress: true })

  it("takes somebody else's address off the bridge, and leaves the gateway of another network of ours", () => {
    const conf = netConf()
    const old = attach(host, conf, { id: 'old' })
    onHost('addr add 10.9.9.1/24 dev cni0')
    expectError(
      host.cni('ADD', { ...other, forceAddress: false }, { id: 'x', netns: host.pod('x') }),
      108,
      '10.9.9.1/24',
    )
    const pod = attach(host, other, { id: 'new' })
    expect([...addressesOf(host, host.path, 'cni0')].sort()).toEqual(['10.240.0.1/24', '10.250.0.1/24'])
    expect(pings(host, pod.netns, '10.250.0.1')).toBe(true)
    expectSilent(later(host, 'CHECK', { conf, pod: old }))
  })
})
