// SPDX-License-Identifier: Apache-2.0
// mode macvlan: pods on an interface of the node, neighbours of what is behind it. `up0` is that interface, `lan` the
// namespace at the other end of its cable, 10.77.0.1.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { openFaults } from '../../support/faults/faults.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateFiles, stateOf, stateWord } from '../../support/state-layout.ts'
import { addressesOf, attach, inPodJson, interfacesOf, later, netConf } from '../../support/traffic/pods.ts'
import { pings, pingsOnce, seenBy, serve } from '../../support/traffic/traffic.ts'

let host: Host
let lan: string
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  lan = host.pod('lan')
  run(host, `link add up0 type veth peer name up1 netns ${lan.slice('/run/netns/'.length)}`)
  run(host, 'link set up0 up')
  for (const words of ['addr add 10.77.0.1/24 dev up1', 'addr add fd77::1/64 dev up1 nodad', 'link set up1 up'])
    expect(host.inPod(lan, 'ip', words.split(' ')).code).toBe(0)
  before = snapshot(host)
})
afterEach(() => host.close())

function run(on: Host, words: string): void {
  expect(on.run('ip', words.split(' ')).code, words).toBe(0)
}

const conf = netConf({ mode: 'macvlan', master: 'up0', podcidr: ['10.77.0.0/24', 'fd77::/64'] })

describe('two pods on one master', () => {
  it('reach each other and the router behind it by their own addresses, and CHECK finds all well', async () => {
    const [a, b] = [attach(host, conf, { id: 'a' }), attach(host, conf, { id: 'b' })]
    expect(a.result.interfaces).toEqual([{ name: 'eth0', mac: '0a:58:0a:4d:00:02', mtu: 1500, sandbox: a.netns }])
    expect(a.result.routes).toEqual([
      { dst: '0.0.0.0/0', gw: '10.77.0.1' },
      { dst: '::/0', gw: 'fd77::1' },
    ])
    for (const address of ['10.77.0.3', 'fd77::3', '10.77.0.1', 'fd77::1'])
      expect(pings(host, a.netns, address), address).toBe(true)
    const stop = await serve(lan)
    try {
      expect(seenBy(host, b.netns, '10.77.0.1')).toBe('10.77.0.3')
    } finally {
      stop()
    }
    for (const pod of [a, b]) expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('do not reach the node, nor the node them', () => {
    run(host, 'addr add 10.77.0.9/24 dev up0')
    const pod = attach(host, conf)
    expect(pings(host, pod.netns, '10.77.0.1')).toBe(true)
    expect(pingsOnce(host, pod.netns, '10.77.0.9')).toBe(false)
    expect(pingsOnce(host, host.path, pod.address)).toBe(false)
  })

  it('leave nothing on the node and in its namespace, with and without the sandbox', () => {
    const [a, b] = [attach(host, conf, { id: 'a' }), attach(host, conf, { id: 'b' })]
    expect(snapshot(host).links).toBe(before.links)
    expect(snapshot(host).rules).toBe(before.rules)
    expectSilent(later(host, 'DEL', { conf, pod: a }))
    expect(interfacesOf(host, a.netns)).toEqual([])
    expectSilent(later(host, 'DEL', { conf, pod: a }))
    host.removePod(b.netns)
    expectSilent(later(host, 'DEL', { conf, pod: b }))
    expectNothingLeft(host, before)
  })
})

describe('the interface', () => {
  it.each([
    ['private', undefined, 1500],
    ['vepa', 1400, 1400],
  ])('is of submode %s with mtu %s', (macvlanMode, mtu, made) => {
    const sent = { ...conf, macvlanMode, ...(mtu ? { mtu } : {}) }
    const pod = attach(host, sent)
    const shown = host.inPod(pod.netns, 'ip', ['-d', 'link', 'show', 'eth0']).stdout
    expect(shown).toContain(`macvlan mode ${macvlanMode}`)
    expect([inPodJson(host, pod.netns, ['link', 'show', 'eth0'])[0]?.mtu, pod.result.interfaces[0]?.mtu]).toEqual([
      made,
      made,
    ])
    expectSilent(later(host, 'CHECK', { conf: sent, pod }))
  })

  it("has the master's MAC with passthru, and keeps others off the master", () => {
    const sent = { ...conf, macvlanMode: 'passthru' }
    const pod = attach(host, sent)
    const mac = JSON.parse(host.run('ip', ['-j', 'link', 'show', 'up0']).stdout)[0].address
    expect([pod.result.interfaces[0]?.mac, inPodJson(host, pod.netns, ['link', 'show', 'eth0'])[0]?.address]).toEqual([
      mac,
      mac,
    ])
    expectSilent(later(host, 'CHECK', { conf: sent, pod }))
    expectError(host.cni('ADD', conf, { id: 'b', netns: host.pod('b') }), 7, 'master-unusable')
    expectError(
      host.cni('ADD', { ...sent, runtimeConfig: { mac: '0a:00:00:00:00:01' } }, { id: 'b', netns: pod.netns }),
      2,
    )
  })

  it('is that of the default route without a master', () => {
    const sent = { ...conf, master: undefined }
    expectError(host.cni('ADD', sent, { netns: host.pod('a') }), 7, 'default route')
    run(host, 'addr add 10.77.0.9/24 dev up0')
    run(host, 'route add default via 10.77.0.1')
    expect(pings(host, attach(host, sent, { id: 'b' }).netns, '10.77.0.1')).toBe(true)
  })

  it('has the MAC that is asked for, settings, and detects duplicates', () => {
    const tuning = { sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1' }, mtu: 1300, txQLen: 77 }
    const sent = { ...conf, tuning, enabledad: true, runtimeConfig: { mac: '0a:00:00:00:00:42' } }
    const pod = attach(host, sent)
    const shown = host.inPod(pod.netns, 'ip', ['link', 'show', 'eth0']).stdout
    for (const text of ['0a:00:00:00:00:42', 'mtu 1300', 'qlen 77']) expect(shown).toContain(text)
    expect(host.inPod(pod.netns, 'sysctl', ['-n', 'net.ipv4.conf.eth0.arp_filter']).stdout).toBe('1\n')
    expectSilent(later(host, 'CHECK', { conf: sent, pod }))
    // The master carries each MAC once.
    expectSilent(later(host, 'DEL', { conf: sent, pod }))
    host.inPod(lan, 'ip', ['addr', 'add', 'fd77::3/64', 'dev', 'up1', 'nodad'])
    expectError(host.cni('ADD', sent, { id: 'b', netns: host.pod('b') }), 100, 'fd77::3')
  })

  it('comes without addresses, and with those of another plugin, which may need the interface', () => {
    const { podcidr: _, ...bare } = conf
    const plain = attach(host, bare, { id: 'a' })
    expect([plain.result.ips, addressesOf(host, plain.netns)]).toEqual([undefined, []])
    const script = 'nsenter --net=$CNI_NETNS ip link show up dev eth0 >seen; '
    const lease =
      '{"cniVersion":"1.1.0","ips":[{"address":"10.77.0.40/24","gateway":"10.77.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]}'
    const ipam = installIpam({ ADD: `${script}${answer(lease)}` })
    try {
      const sent = { ...bare, name: 'leased', ipam: { type: 'scripted' } }
      const pod = attach(host, sent, { id: 'b', path: ipam.path })
      expect(host.run('cat', [`${ipam.path}/seen`]).stdout).toContain('eth0')
      expect([addressesOf(host, pod.netns), pings(host, pod.netns, '10.77.0.1')]).toEqual([['10.77.0.40/24'], true])
      expectSilent(later(host, 'CHECK', { conf: sent, pod }))
      expectSilent(later(host, 'DEL', { conf: sent, pod }))
      expect([interfacesOf(host, pod.netns), ipam.calls()]).toEqual([[], ['ADD', 'CHECK', 'DEL']])
    } finally {
      ipam.remove()
    }
  })
})

describe('is refused, with nothing left', () => {
  it.each<[string, object, number, string]>([
    ['a master that is not there', { master: 'nope' }, 7, 'master-not-there'],
    ['the loopback interface', { master: 'lo' }, 7, 'master-unusable'],
    ['a name that is none', { master: 'a/b' }, 7, 'master-unusable'],
    ['more than the master carries', { mtu: 9000 }, 7, 'mtu-above-master'],
    ['more than the master carries, as a setting', { tuning: { mtu: 9000 } }, 7, 'mtu-above-master'],
    ['a limit', { bandwidth: { ingressRate: 8_000_000 } }, 7, 'bandwidth-without-veth'],
    ['a policy', { firewall: { ingressPolicy: 'isolated' } }, 7, 'policy-without-veth'],
    [
      'a host port',
      { runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] } },
      7,
      'ports-without-route',
    ],
  ])('%s', (_, more, code, id) => {
    const netns = host.pod('a')
    expectError(host.cni('ADD', { ...conf, ...more }, { netns }), code, id)
    expect(interfacesOf(host, netns)).toEqual([])
    expectNothingLeft(host, before)
  })

  it('a port of a bridge', () => {
    run(host, 'link add br-x type bridge')
    run(host, 'link set up0 master br-x')
    const netns = host.pod('a')
    expectError(host.cni('ADD', conf, { netns }), 7, 'port of a bridge')
    expect(interfacesOf(host, netns)).toEqual([])
    run(host, 'link set up0 nomaster')
    expectNothingLeft(host, before)
  })

  it('a name that the pod has, and that one stays', () => {
    const netns = host.pod('a')
    expect(host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'far']).code).toBe(0)
    expectError(host.cni('ADD', conf, { netns }), 4, 'interface-name-taken')
    expect([...interfacesOf(host, netns)].sort()).toEqual(['eth0', 'far'])
    expectNothingLeft(host, before)
  })
})

describe('afterwards', () => {
  it('CHECK says what is another interface, of another master, or gone', () => {
    const pod = attach(host, conf)
    const found = () => later(host, 'CHECK', { conf, pod })
    host.inPod(pod.netns, 'ip', ['link', 'set', 'eth0', 'mtu', '1300'])
    expectError(found(), 107, /MTU of eth0/)
    host.inPod(pod.netns, 'ip', ['link', 'set', 'eth0', 'type', 'macvlan', 'mode', 'private'])
    expectError(found(), 107, /macvlan mode of eth0/)
    host.inPod(pod.netns, 'ip', ['link', 'del', 'eth0'])
    expectError(found(), 107, /eth0 is missing/)
  })

  it('restore has nothing to make again, and DEL works by the record once the master or the namespace is gone', () => {
    const pod = attach(host, conf)
    const ended = attach(host, conf, { id: 'ended' })
    const restored = host.run('env', [stateWord(host), trestle, 'restore'])
    expect(restored).toMatchObject({ code: 0, stdout: '0 restored, 0 lost\n' })
    run(host, 'link del up0')
    host.removePod(ended.netns)
    expectSilent(later(host, 'DEL', { conf, pod: ended }))
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expectError(later(host, 'CHECK', { conf, pod }), 107, /up0 is missing/)
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, { ...before, links: snapshot(host).links })
  })

  it('GC takes what the runtime no longer has', () => {
    const pod = attach(host, conf)
    expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [] }))
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expectNothingLeft(host, before)
  })

  it('of an ADD that failed or was killed at any of its batches nothing is left, whatever its interface is called by then', () => {
    const tools = openFaults()
    const netns = host.pod('a')
    const add = () => host.cni('ADD', conf, { netns, env: { PATH: tools.path } })
    const undo = () => {
      expectSilent(host.cni('DEL', conf, { netns }))
      expect(interfacesOf(host, netns)).toEqual([])
      expectNothingLeft(host, before)
      host.run('find', [stateFiles(host).networks, '-mindepth', '1', '-delete'])
    }
    try {
      tools.reset()
      expect(add().code).toBe(0)
      const batches = tools
        .seen()
        .filter(({ args, lines }) => args.includes('-batch -') && !args.includes('-force') && lines.length > 0)
      expect(batches.flatMap(({ lines }) => lines).join()).toMatch(/type macvlan.*name eth0/)
      undo()
      for (const { tool, nth, shape } of batches)
        for (const kind of ['kill-after', 'error'] as const) {
          tools.reset({ tool, nth, shape }, { kind })
          expect(add().code).not.toBe(0)
          expect(tools.seen().some(({ isStruck }) => isStruck)).toBe(true)
          undo()
        }
    } finally {
      tools.close()
    }
    expect(pings(host, attach(host, conf, { netns }).netns, '10.77.0.1')).toBe(true)
  })

  it('what is left in a pod after its state was lost goes with an ADD that fails on it', () => {
    const pod = attach(host, conf)
    host.run('rm', ['-r', host.stateDir])
    host.run('mkdir', [host.stateDir])
    expectError(host.cni('ADD', conf, pod.call), 4, 'interface-name-taken')
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expect(pings(host, attach(host, conf, pod.call).netns, '10.77.0.1')).toBe(true)
  })

  it('what is left in a pod after its state was lost goes with its DEL, and nothing else there', () => {
    const pod = attach(host, conf)
    expect(host.inPod(pod.netns, 'ip', ['link', 'add', 'own', 'link', 'eth0', 'type', 'macvlan']).code).toBe(0)
    const other = attach(
      host,
      { ...conf, name: 'other', podcidr: '10.77.1.0/24' },
      { netns: pod.netns, ifName: 'net1' },
    )
    host.run('rm', ['-r', stateOf(host, 'net').directory])
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(interfacesOf(host, pod.netns)).toEqual(['own', 'net1'])
    expectSilent(later(host, 'DEL', { conf: { ...conf, name: 'other' }, pod: other }))
    expectNothingLeft(host, before)
  })
})
