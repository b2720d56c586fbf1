// SPDX-License-Identifier: Apache-2.0
// mode host-device: an interface of the node is the pod's, and comes home. `dev7` is that interface, `lan` the namespace
// at the other end of its cable, 10.77.0.1.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { openFaults, type ToolCall } from '../../support/faults/faults.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateFiles, stateWord } from '../../support/state-layout.ts'
import {
  addressesOf,
  attach,
  inPodJson,
  interfacesOf,
  later,
  netConf,
  onHostJson,
  type Pod,
} from '../../support/traffic/pods.ts'
import { pings } from '../../support/traffic/traffic.ts'

let host: Host
let lan: string
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  lan = host.pod('lan')
  connect('dev7')
  runLine(host, 'ip link set dev7 alias left')
  before = snapshot(host)
})
afterEach(() => host.close())

/** A device with its cable to `lan`, whose end there has an address. */
function connect(name: string): void {
  runLine(host, `ip link add ${name} address 0a:00:00:00:07:07 type veth peer name lan7 netns ${lan.split('/').at(-1)}`)
  runLine(host, `ip link set ${name} up mtu 1400`)
  for (const words of ['addr add 10.77.0.1/24 dev lan7', 'addr add fd77::1/64 dev lan7 nodad', 'link set lan7 up'])
    expect(host.inPod(lan, 'ip', words.split(' ')).code).toBe(0)
}

const ipam = { type: 'trestle', ranges: [[{ subnet: '10.77.0.0/24' }], [{ subnet: 'fd77::/64' }]] }
const bare = netConf({ podcidr: undefined, mode: 'host-device', device: 'dev7' })
const conf = { ...bare, ipam }
const sorted = (text: string) => text.split('\n').sort()
const down = (text: string) => text.replace(/^(dev7.*)<(.*),UP>/gm, '$1<$2>')

describe('a device', () => {
  it.each([
    ['its name', { device: 'dev7' }],
    ['its MAC, in any form', { device: undefined, hwaddr: '0A-00-00-00-07-07' }],
  ])('by %s is the interface of the pod under its name there, and CHECK finds all well', (_, named) => {
    const sent = { ...conf, ...named }
    const pod = attach(host, sent)
    expect(pod.result.interfaces).toEqual([{ name: 'eth0', mac: '0a:00:00:00:07:07', mtu: 1400, sandbox: pod.netns }])
    expect(onHostJson(host, ['link']).map(({ ifname }) => ifname)).not.toContain('dev7')
    expect(inPodJson(host, pod.netns, ['link', 'show', 'eth0'])[0]).toMatchObject({ ifalias: 'dev7', mtu: 1400 })
    for (const address of ['10.77.0.1', 'fd77::1']) expect(pings(host, pod.netns, address), address).toBe(true)
    expectSilent(later(host, 'CHECK', { conf: sent, pod }))
    expectSilent(later(host, 'DEL', { conf: sent, pod }))
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expectNothingLeft(host, before)
    expectSilent(later(host, 'DEL', { conf: sent, pod, call: { netns: '' } }))
    expectNothingLeft(host, before)
  })

  it('comes without addresses, and those of the node go with the move', () => {
    runLine(host, 'ip addr add 10.77.0.9/24 dev dev7')
    const pod = attach(host, bare)
    expect([pod.result.ips, pod.result.routes, addressesOf(host, pod.netns)]).toEqual([undefined, undefined, []])
    expect(inPodJson(host, pod.netns, ['link', 'show', 'up', 'eth0'])[0]?.ifname).toBe('eth0')
    expectSilent(later(host, 'CHECK', { conf: bare, pod }))
    expectSilent(later(host, 'DEL', { conf: bare, pod }))
    expectNothingLeft(host, before)
  })

  it('comes up before the addresses of another plugin, which may need it', () => {
    const script = 'nsenter --net=$CNI_NETNS ip link show up dev eth0 >seen; '
    const lease = '{"cniVersion":"1.1.0","ips":[{"address":"10.77.0.40/24"}]}'
    const scripted = installIpam({ ADD: `${script}${answer(lease)}` })
    try {
      const sent = { ...bare, ipam: { type: 'scripted' } }
      const pod = attach(host, sent, { path: scripted.path })
      expect(host.run('cat', [`${scripted.path}/seen`]).stdout).toContain('eth0')
      expect([addressesOf(host, pod.netns), pings(host, pod.netns, '10.77.0.1')]).toEqual([['10.77.0.40/24'], true])
      expectSilent(later(host, 'CHECK', { conf: sent, pod }))
      expectSilent(later(host, 'DEL', { conf: sent, pod }))
      expect(scripted.calls()).toEqual(['ADD', 'CHECK', 'DEL'])
      expectNothingLeft(host, before)
    } finally {
      scripted.remove()
    }
  })

  it('has the settings that are asked for, and comes home without them', () => {
    const tuning = { sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1' }, mtu: 1300, txQLen: 77, promisc: true }
    const sent = { ...conf, tuning, runtimeConfig: { mac: '0a:00:00:00:00:42' } }
    const pod = attach(host, sent)
    const shown = host.inPod(pod.netns, 'ip', ['link', 'show', 'eth0']).stdout
    for (const text of ['0a:00:00:00:00:42', 'mtu 1300', 'qlen 77', 'PROMISC']) expect(shown).toContain(text)
    expectSilent(later(host, 'CHECK', { conf: sent, pod }))
    expectSilent(later(host, 'DEL', { conf: sent, pod }))
    expectNothingLeft(host, before)
  })

  it('stays down where its interface is to be', () => {
    runLine(host, 'ip link set dev7 down')
    const pod = attach(host, { ...bare, disableContainerInterface: true })
    expect(host.inPod(pod.netns, 'ip', ['-o', 'link', 'show', 'up']).stdout).not.toContain('eth0')
    expectSilent(later(host, 'DEL', { conf: bare, pod }))
    expectNothingLeft(host, { ...before, links: down(before.links) })
  })
})

describe('is refused, and as it was', () => {
  it.each<[string, string, object, number, string | RegExp]>([
    ['a device that is not there', '', { device: 'nope' }, 7, 'device-not-there'],
    ['a MAC that no interface has', '', { device: undefined, hwaddr: '0a:00:00:00:07:08' }, 7, 'device-not-there'],
    ['loopback', '', { device: 'lo' }, 7, /loopback.*device-unusable/],
    ['the uplink', 'ip route add default dev dev7', {}, 7, /default route.*device-unusable/],
    ['the IPv6 uplink', 'ip -6 route add default dev dev7', {}, 7, 'default route'],
    ['what carries another link', 'ip link add link dev7 name mac7 type macvlan', {}, 7, 'dev7 carries mac7'],
    ['a path outside of /sys/devices', '', { device: undefined, kernelpath: '/sys/class/net/dev7' }, 7, 'device-form'],
    ['a path with ..', '', { device: undefined, kernelpath: '/sys/devices/../class/net/dev7' }, 7, 'device-form'],
    ['a PCI address with a path', '', { device: undefined, pciBusID: '0000:00:03.0/../x' }, 7, 'device-form'],
    ['two devices', '', { hwaddr: '0a:00:00:00:07:07' }, 7, 'device-keys'],
    ['none', '', { device: undefined }, 7, 'device-keys'],
    ['a limit', '', { bandwidth: { ingressRate: 8_000_000 } }, 7, 'bandwidth-without-veth'],
    ['a policy', '', { firewall: { ingressPolicy: 'isolated' } }, 7, 'policy-without-veth'],
  ])('%s', (_, line, more, code, text) => {
    if (line !== '') runLine(host, line)
    const now = snapshot(host)
    const netns = host.pod('a')
    expectError(host.cni('ADD', { ...conf, ...more }, { netns }), code, text)
    expect(interfacesOf(host, netns)).toEqual([])
    expectNothingLeft(host, now)
  })

  it('where /sys is of another network namespace, which would tell of other devices', () => {
    const sent = { ...conf, device: undefined, pciBusID: '0000:00:03.0' }
    expectError(host.cni('ADD', sent, { netns: host.pod('a') }), 7, /\/sys shows another network namespace/)
    expectNothingLeft(host, before)
  })

  it('a port of a bridge, and a bridge, which the kernel keeps', () => {
    runLine(host, 'ip link add br-x type bridge')
    const withBridge = snapshot(host)
    expectError(host.cni('ADD', { ...conf, device: 'br-x' }, { netns: host.pod('b') }), 7, 'device-unusable')
    expectNothingLeft(host, withBridge)
    runLine(host, 'ip link set dev7 master br-x')
    expectError(host.cni('ADD', conf, { netns: host.pod('a') }), 7, 'dev7 is a port of br-x')
  })

  it('the end of a pod, and a name that the pod has: the device is home, and up', () => {
    const other = attach(host, netConf({ name: 'other' }), { id: 'other' })
    const now = snapshot(host)
    expectError(host.cni('ADD', { ...conf, device: other.hostLink }, { netns: host.pod('a') }), 7, 'the end of a pod')
    expectError(host.cni('ADD', conf, { id: 'b', netns: other.netns }), 4, 'interface-name-taken')
    expect(interfacesOf(host, other.netns)).toEqual(['eth0'])
    // It comes last among the links.
    const links = sorted(snapshot(host).links)
    expectNothingLeft(host, { ...now, links: snapshot(host).links })
    expect(links).toEqual(sorted(now.links))
  })

  it('what a live pod has, in whatever network, and what carries the macvlan of one', () => {
    const pod = attach(host, conf)
    const second = { ...conf, name: 'second', device: undefined, hwaddr: '0a:00:00:00:07:07' }
    expectError(
      host.cni('ADD', second, { id: 'b', netns: host.pod('b') }),
      7,
      /is in use by container c1, eth0.*device-in-use/,
    )
    expectSilent(host.cni('STATUS', conf))
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    const macvlan = attach(host, netConf({ name: 'macs', mode: 'macvlan', master: 'dev7' }), { id: 'm' })
    expectError(host.cni('ADD', second, { id: 'b', netns: host.pod('c') }), 7, 'is in use by container m')
    expect(interfacesOf(host, macvlan.netns)).toEqual(['eth0'])
  })
})

describe('afterwards', () => {
  const home = (pod: Pod) => expectSilent(later(host, 'DEL', { conf, pod }))

  it('CHECK says what is another interface, or gone', () => {
    const pod = attach(host, conf)
    host.inPod(pod.netns, 'ip', ['link', 'set', 'eth0', 'mtu', '1300'])
    expectError(later(host, 'CHECK', { conf, pod }), 107, /MTU of eth0/)
    for (const words of ['link set eth0 down', 'link set eth0 name mine']) host.inPod(pod.netns, 'ip', words.split(' '))
    expectError(later(host, 'CHECK', { conf, pod }), 107, /eth0 is missing/)
    home(pod)
    expectNothingLeft(host, before)
  })

  it('comes home from a pod that renamed it, took its alias and has a link with its name', () => {
    const pod = attach(host, conf)
    for (const words of ['link add dev7 type bridge', 'link set eth0 alias x', 'link set eth0 mtu 1300'])
      expect(host.inPod(pod.netns, 'ip', words.split(' ')).code).toBe(0)
    home(pod)
    expect(interfacesOf(host, pod.netns)).toEqual(['dev7'])
    expectNothingLeft(host, before)
  })

  it('comes home from a pod that gave it a name which no batch carries', () => {
    const pod = attach(host, conf)
    for (const words of [
      ['link', 'set', 'eth0', 'down'],
      ['link', 'set', 'eth0', 'name', '#\\"'],
    ])
      expect(host.inPod(pod.netns, 'ip', words).code).toBe(0)
    home(pod)
    expectNothingLeft(host, before)
  })

  it('stays in the pod, as it is, while the host has another link of its name, and comes home with a later DEL', () => {
    const pod = attach(host, conf)
    const inPod = () => inPodJson(host, pod.netns, ['link', 'show', 'eth0'])
    const before = inPod()
    runLine(host, 'ip link add dev7 type bridge')
    const [foreign] = onHostJson(host, ['link', 'show', 'dev7'])
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(onHostJson(host, ['link', 'show', 'dev7'])).toEqual([foreign])
    expect(inPod()).toEqual(before)
    runLine(host, 'ip link del dev7')
    home(pod)
    expect(interfacesOf(host, pod.netns)).toEqual([])
  })

  it('a link that the pod put in its place stays there', () => {
    const pod = attach(host, conf)
    for (const words of ['link del eth0', 'link add eth0 type bridge', 'link set eth0 alias dev7'])
      expect(host.inPod(pod.netns, 'ip', words.split(' ')).code).toBe(0)
    const deleted = later(host, 'DEL', { conf, pod })
    expectSilent(deleted)
    expect(deleted.stderr).toContain('dev7 is neither in the pod nor on the host')
    expect(interfacesOf(host, pod.netns)).toEqual(['eth0'])
  })

  it('a virtual device ends with the namespace, which is said, and the next pod has the one that took its place', () => {
    const pod = attach(host, conf)
    host.removePod(pod.netns)
    const deleted = later(host, 'DEL', { conf, pod })
    expectSilent(deleted)
    expect(deleted.stderr).toContain('dev7 is gone: a link of kind veth is destroyed with the namespace that it is in')
    // The kernel takes the pair away some time after the namespace (net_namespace.c, cleanup_net).
    host.inPod(lan, 'ip', ['link', 'del', 'lan7'])
    connect('dev7')
    const next = attach(host, conf, { id: 'next' })
    expect(pings(host, next.netns, '10.77.0.1')).toBe(true)
  })

  /** What the kernel does with a device of the machine when the namespace ends. */
  function endNamespace(pod: Pod): void {
    const words = ['link', 'set', 'eth0', 'netns', host.path.split('/').at(-1) ?? '', 'name', 'dev3']
    expect(host.inPod(pod.netns, 'ip', words).code).toBe(0)
    host.removePod(pod.netns)
  }

  it('one that is back under another name gets its own, with a DEL or for the next pod', () => {
    const pod = attach(host, conf)
    endNamespace(pod)
    home(pod)
    expectNothingLeft(host, before)
    endNamespace(attach(host, conf))
    const next = attach(host, conf, { id: 'next' })
    expect(inPodJson(host, next.netns, ['link', 'show', 'eth0'])[0]?.ifalias).toBe('dev7')
    home(next)
    expectNothingLeft(host, before)
  })

  it('without a record, too, with its DEL; until then an ADD tells how to find it', () => {
    const pod = attach(host, conf)
    endNamespace(pod)
    host.run('find', [host.stateDir, '-mindepth', '1', '-delete'])
    expectError(
      host.cni('ADD', conf, { id: 'other', netns: host.pod('other') }),
      7,
      'from a pod under another name has the alias dev7',
    )
    home(pod)
    expect(onHostJson(host, ['link', 'show', 'dev7'])[0]).not.toHaveProperty('ifalias')
  })

  it('of a DEL without a record it comes home by its alias, as what the upstream plugin moved', () => {
    const pod = attach(host, conf)
    host.run('find', [host.stateDir, '-mindepth', '1', '-delete'])
    home(pod)
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expect(onHostJson(host, ['link', 'show', 'dev7'])[0]).not.toHaveProperty('ifalias')
    home(pod)
  })

  it('GC brings home what the runtime no longer has, and restore has nothing to make', () => {
    const pod = attach(host, conf)
    const restored = host.run('env', [stateWord(host), trestle, 'restore'])
    expect(restored).toMatchObject({ code: 0, stdout: '0 restored, 0 lost\n' })
    expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [] }))
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expectNothingLeft(host, before)
  })
})

describe('of a call that failed or was killed at any of its batches', () => {
  const isBatch = ({ args, lines }: ToolCall) =>
    args.includes('-batch -') && !args.includes('-force') && lines.length > 0

  it('the device is home after a DEL', () => {
    const tools = openFaults()
    const netns = host.pod('a')
    const call = (verb: 'ADD' | 'DEL') => host.cni(verb, conf, { netns, env: { PATH: tools.path } })
    const settled = () => {
      expectSilent(host.cni('DEL', conf, { netns }))
      expect(interfacesOf(host, netns)).toEqual([])
      expectNothingLeft(host, before)
      host.run('find', [stateFiles(host).networks, '-mindepth', '1', '-delete'])
    }
    const struck = { ADD: 0, DEL: 0 }
    try {
      for (const verb of ['ADD', 'DEL'] as const) {
        tools.reset()
        expect(call('ADD').code).toBe(0)
        if (verb === 'DEL') tools.reset()
        if (verb === 'DEL') expectSilent(call('DEL'))
        const batches = tools.seen().filter(isBatch)
        settled()
        for (const { tool, nth, shape } of batches)
          for (const kind of ['kill-after', 'error', 'kill-held'] as const) {
            if (verb === 'DEL') expect(host.cni('ADD', conf, { netns }).code).toBe(0)
            tools.reset({ tool, nth, shape }, { kind })
            const { code } = call(verb)
            if (verb === 'ADD') expect(code).not.toBe(0)
            expect(tools.seen().some(({ isStruck }) => isStruck)).toBe(true)
            struck[verb] += 1
            settled()
          }
      }
    } finally {
      tools.close()
    }
    expect(struck.ADD).toBeGreaterThan(3)
    expect(struck.DEL).toBeGreaterThan(3)
    expect(pings(host, attach(host, conf, { netns }).netns, '10.77.0.1')).toBe(true)
  })
})
