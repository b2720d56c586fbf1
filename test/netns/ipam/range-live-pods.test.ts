// SPDX-License-Identifier: Apache-2.0
// A configuration that is edited while pods live: a range, a bridge or a mode that would give one address or one gateway
// to two places is refused (110) by name. What nobody uses any more makes room in the same ADD.

import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateOf, stateWord } from '../../support/state-layout.ts'
import { statusOnNode } from '../../support/status-on-node.ts'
import { addressesOf, attach, ipamConf, later, netConf, onHostJson, type Pod } from '../../support/traffic/pods.ts'
import { pings } from '../../support/traffic/traffic.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** An interface of the node, up, with these addresses. */
function plug(name: string, ...cidrs: readonly string[]): void {
  runLine(host, `ip link add ${name} type veth peer name ${name}-peer`)
  for (const cidr of cidrs) runLine(host, `ip addr add ${cidr} dev ${name}${cidr.includes(':') ? ' nodad' : ''}`)
  for (const dev of [name, `${name}-peer`]) runLine(host, `ip link set ${dev} up`)
}

const refusedAdd = (conf: object, message: string | RegExp) => {
  const netns = host.pod('refused')
  const before = snapshot(host)
  expectError(host.cni('ADD', conf, { id: 'refused', netns }), 110, message)
  expectNothingLeft(host, before)
  host.removePod(netns)
}
/** Ends a pod. The kernel takes its link away a moment after its namespace (net/core/net_namespace.c, cleanup_net). */
const endPod = ({ netns, result }: Pod) => {
  host.removePod(netns)
  const names = new Set(result.interfaces.map(({ name }) => name))
  const isThere = () =>
    onHostJson(host, ['link', 'show', 'type', 'veth']).some(({ ifname }) => names.has(String(ifname)))
  for (let looks = 0; looks < 100 && isThere(); looks++) runLine(host, 'sleep 0.05')
}
const bridges = () => onHostJson(host, ['link', 'show', 'type', 'bridge']).map(({ ifname }) => ifname)
const reach = (...pods: readonly Pod[]) => {
  for (const pod of pods)
    for (const { address, gateway } of pods.flatMap(({ result }) => result.ips))
      for (const each of [address.replace(/\/.*/, ''), gateway])
        expect(pings(host, pod.netns, each), `${pod.id} to ${each}`).toBe(true)
}
const routed = (more: Readonly<Record<string, unknown>> = {}) => netConf({ mode: 'ptp', ...more })

describe('a network with a live pod', () => {
  it.each<[string, Readonly<Record<string, unknown>>]>([
    ['bridge', { bridge: 'br9' }],
    ['bridge of the same name', { forceAddress: true }],
    ['ptp', { mode: 'ptp' }],
  ])('is refused a new range that an interface or another network has: %s', (_, more) => {
    plug('eth9', '192.0.2.2/24', '2001:db8:5::2/64')
    const before = more['mode'] === 'ptp' ? routed() : netConf()
    const pod = attach(host, before)
    attach(host, netConf({ name: 'other', bridge: 'br-other', podcidr: '10.5.0.0/24' }), { id: 'other' })
    const inUse = [
      ['192.0.2.0/24', 'the range 192.0.2.0/24 overlaps 192.0.2.2/24 of eth9'],
      [['10.9.0.0/24', '2001:db8:5::/64'], 'the range 2001:db8:5::/64 overlaps 2001:db8:5::2/64 of eth9'],
      ['10.5.0.128/25', 'the range 10.5.0.128/25 overlaps 10.5.0.1/24 of network other on br-other'],
      ['10.4.0.0/15', 'overlaps 10.5.0.1/24 of network other on br-other'],
    ] as const
    for (const [podcidr, message] of inUse) refusedAdd(netConf({ podcidr, ...more }), message)
    expectSilent(later(host, 'CHECK', { conf: before, pod }))
  })

  it('keeps a range that an interface was given later, and gets no part of it that is new', () => {
    const ipam = (subnet: string) =>
      ipamConf({ type: 'trestle', subnet, gateway: '10.240.0.1' }, { forceAddress: true })
    attach(host, ipam('10.240.0.0/25'))
    plug('eth9', '10.240.0.9/26')
    const dual = { ...ipam('10.240.0.0/25'), ipam: undefined, podcidr: ['10.240.0.0/25', 'fd00:240::/64'] }
    const warned = host.cni('ADD', dual, { id: 'warned', netns: host.pod('warned') })
    expect(warned.code, warned.stdout).toBe(0)
    expect(warned.stderr).toContain('the range 10.240.0.0/25 overlaps 10.240.0.9/26 of eth9')
    runLine(host, 'ip addr add 10.240.0.200/26 dev eth9')
    refusedAdd(ipam('10.240.0.0/24'), 'the range 10.240.0.0/24 overlaps 10.240.0.200/26 of eth9')
  })
})

describe('another mask of a range that has no pods any more', () => {
  const masks: readonly (readonly [before: string, after: string])[] = [
    ['10.240.0.0/24', '10.240.0.0/25'],
    ['10.240.0.0/25', '10.240.0.0/24'],
    ['fd00:240::/64', 'fd00:240::/65'],
    ['fd00:240::/65', 'fd00:240::/64'],
  ]
  it.each(masks)('%s, then %s: the gateway is on the bridge', (before, after) => {
    const pod = attach(host, netConf({ podcidr: before }))
    expectSilent(later(host, 'DEL', { conf: netConf({ podcidr: before }), pod }))
    const conf = netConf({ podcidr: after })
    const young = attach(host, conf, { id: 'young' })
    reach(young)
    expectSilent(later(host, 'CHECK', { conf, pod: young }))
  })
})

describe('the range on another bridge', () => {
  it('is refused while pods are on the old one, which goes with the next ADD after them', () => {
    const moved = netConf({ bridge: 'br7' })
    const pods = ['a', 'b'].map((id) => attach(host, netConf(), { id }))
    refusedAdd(moved, /the range 10\.240\.0\.0\/24 .*bridge cni0, .*2 pods/)
    reach(...pods)
    for (const pod of pods) expectSilent(later(host, 'DEL', { conf: moved, pod }))
    expect(bridges()).toEqual(['cni0'])
    const young = ['c', 'd'].map((id) => attach(host, moved, { id }))
    expect(bridges()).toEqual(['br7'])
    reach(...young)
    for (const pod of young) expectSilent(later(host, 'CHECK', { conf: moved, pod }))
  })

  it('is refused where one family alone is kept', () => {
    attach(host, netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] }))
    refusedAdd(netConf({ podcidr: ['10.241.0.0/24', 'fd00:240::/64'], bridge: 'br7' }), /fd00:240::\/64 .*cni0/)
    attach(host, netConf({ podcidr: ['10.241.0.0/24', 'fd00:241::/64'], bridge: 'br7' }), { id: 'apart' })
  })

  it('keeps the gateways of its pods, also where another network has that bridge by now', () => {
    const before = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
    const pod = attach(host, before)
    const moved = netConf({ podcidr: ['10.241.0.0/24', 'fd00:241::/64'], bridge: 'br7' })
    attach(host, moved, { id: 'moved' })
    const addresses = [{ address: '10.240.0.200/24', gateway: '10.240.0.1' }]
    attach(host, ipamConf({ type: 'static', addresses }, { name: 'other' }), { id: 'other' })
    runLine(host, 'ip -6 addr del fd00:240::1/64 dev cni0')
    expectError(later(host, 'CHECK', { conf: moved, pod }), 107, 'fd00:240::1/64 is missing on cni0')
    const restored = host.run('env', [stateWord(host), trestle, 'restore'])
    expect(restored.stdout).toContain('1 restored, 0 lost')
    reach(pod)
  })

  it('takes the place of a bridge whose pods are dead, or have left no record', () => {
    const pod = attach(host, netConf())
    endPod(pod)
    attach(host, netConf({ bridge: 'br7' }), { id: 'young' })
    expect(bridges()).toEqual(['br7'])
    expectSilent(later(host, 'DEL', { conf: netConf({ bridge: 'br7' }), pod }))
    const all = attach(host, netConf({ name: 'lost', bridge: 'br8', podcidr: '10.250.0.0/24' }), { id: 'lost' })
    rmSync(stateOf(host, 'lost').directory, { recursive: true })
    refusedAdd(netConf({ name: 'lost', bridge: 'br9', podcidr: '10.250.0.0/24' }), /br8/)
    expect(pings(host, all.netns, '10.250.0.1')).toBe(true)
  })

  it('leaves a bridge that somebody else made or uses, and is refused', () => {
    runLine(host, 'ip link add cni0 type bridge')
    const pod = attach(host, netConf())
    expectSilent(later(host, 'DEL', { conf: netConf(), pod }))
    refusedAdd(netConf({ bridge: 'br7' }), 'overlaps 10.240.0.1/24 of cni0')
    runLine(host, 'ip link del cni0')
    const own = attach(host, netConf(), { id: 'own' })
    runLine(host, 'ip link add tap9 type veth peer name tap9-peer')
    runLine(host, 'ip link set tap9 master cni0')
    expectSilent(later(host, 'DEL', { conf: netConf(), pod: own }))
    refusedAdd(netConf({ bridge: 'br7' }), 'overlaps 10.240.0.1/24 of cni0')
  })

  it('of a delegated plugin is refused, a whole move is not', () => {
    const lease = (address: string, gateway: string) =>
      answer(JSON.stringify({ cniVersion: '1.1.0', ips: [{ address, gateway }] }))
    const move = (bridge: string, address: string, gateway: string) => {
      const plugin = installIpam({ ADD: lease(address, gateway) })
      const id = `${bridge}-${address.replaceAll(/\D/g, '-')}`
      try {
        const call = { id, netns: host.pod(id), path: plugin.path }
        return host.cni('ADD', ipamConf({ type: 'scripted' }, { bridge }), call)
      } finally {
        plugin.remove()
      }
    }
    expect(move('cni0', '10.77.0.2/24', '10.77.0.1').code).toBe(0)
    expectError(move('br7', '10.77.0.3/24', '10.77.0.1'), 110, /bridge cni0, .*1 pod/)
    expect(move('br7', '10.78.0.2/24', '10.78.0.1').code).toBe(0)
    expect(addressesOf(host, host.path, 'br7')).toEqual(['10.78.0.1/24'])
  })
})

describe('a range whose bridge was removed by hand, after its last pod', () => {
  const remove = () => {
    const conf = netConf({ name: 'first' })
    expectSilent(later(host, 'DEL', { conf, pod: attach(host, conf, { id: 'first' }) }))
    runLine(host, 'ip link del cni0')
    return conf
  }
  const restore = () => host.run('env', [stateWord(host), trestle, 'restore'])

  it.each<[string, object, string]>([
    ['on another bridge', netConf({ name: 'second', bridge: 'br7' }), 'network second on br7, with 1 pod'],
    ['routed', routed({ name: 'second' }), '1 pod of network second in mode ptp'],
  ])("is another network's by then: %s", (_, second, message) => {
    const first = remove()
    const pod = attach(host, second, { id: 'second' })
    expect(restore()).toMatchObject({ code: 0, stdout: '0 restored, 0 lost\n' })
    refusedAdd(first, message)
    expectError(statusOnNode(host, first), 50, message)
    reach(pod, attach(host, second, { id: 'beside' }))
    expect(bridges()).not.toContain('cni0')
  })

  it("is an interface's by then", () => {
    const first = remove()
    plug('eth9', '10.240.0.9/24')
    refusedAdd(first, 'the range 10.240.0.0/24 overlaps 10.240.0.9/24 of eth9')
  })

  it("is the network's own again where nobody has it, also under live pods", () => {
    const first = remove()
    const pods = ['a', 'b'].map((id) => attach(host, first, { id }))
    runLine(host, 'ip link del cni0')
    refusedAdd(routed({ name: 'second' }), /bridge cni0|on cni0/)
    reach(...pods, attach(host, first, { id: 'c' }))
    runLine(host, 'ip link del cni0')
    expect(restore().code).toBe(0)
    reach(...pods)
  })
})

describe('routed pods', () => {
  it('of two networks with one range, or of a renamed one, have an address each and reach each other', () => {
    const pods = ['first', 'second', 'first', 'third', 'second'].map((name, at) =>
      attach(host, routed({ name, podcidr: ['10.240.0.0/24', 'fd00:240::/64'] }), { id: `pod${at}` }),
    )
    expect(new Set(pods.flatMap(({ result }) => result.ips.map(({ address }) => address))).size).toBe(10)
    reach(...pods)
  })

  it('and an address that is asked for: the holder is named', () => {
    attach(host, routed({ name: 'first' }))
    const asked = routed({ name: 'second', runtimeConfig: { ips: ['10.240.0.2'] } })
    const call = { id: 'asked', netns: host.pod('asked') }
    expectError(host.cni('ADD', asked, call), 102, /10\.240\.0\.2 is not available .*container c1/s)
  })

  it('and none where live pods of another network have all: STATUS and ADD say it, until a pod goes', () => {
    const small = (name: string) => routed({ name, podcidr: '10.240.0.0/29' })
    const [gone] = ['a', 'b', 'c', 'd', 'e'].map((id) => attach(host, small('first'), { id }))
    expectError(host.cni('STATUS', small('second')), 50, 'no IP addresses available')
    expectError(host.cni('ADD', small('second'), { id: 'f', netns: host.pod('f') }), 101, '5 of 5 used')
    expectSilent(later(host, 'DEL', { conf: small('first'), pod: gone as Pod }))
    expectSilent(host.cni('STATUS', small('second')))
    expect(attach(host, small('second'), { id: 'g' }).address).toBe(gone?.address)
  })

  it('keep their range from a bridge and from another gateway, also one that their network has left', () => {
    const pod = attach(host, routed({ name: 'first' }))
    refusedAdd(
      netConf({ name: 'second' }),
      'the range 10.240.0.0/24 overlaps 10.240.0.1/24 of 1 pod of network first in mode ptp',
    )
    refusedAdd(routed({ name: 'second', podcidr: '10.240.0.0/16' }), 'overlaps')
    attach(host, routed({ name: 'first', podcidr: '10.241.0.0/24' }), { id: 'moved' })
    refusedAdd(netConf({ name: 'second' }), /10\.240\.0\.0\/24 .*1 pod of network first in mode ptp/)
    expectSilent(later(host, 'DEL', { conf: routed({ name: 'first' }), pod }))
    attach(host, netConf({ name: 'second' }), { id: 'free' })
  })

  it('keep their addresses from a gateway, also where the new range has free ones', () => {
    const pods = ['a', 'b', 'c', 'd'].map((id) => attach(host, routed({ podcidr: '10.240.0.0/24' }), { id }))
    expect(pods[3]?.address).toBe('10.240.0.5')
    for (const name of ['net', 'other'])
      refusedAdd(
        routed({ name, ipam: { type: 'trestle', subnet: '10.240.0.0/16', gateway: '10.240.0.5' }, podcidr: undefined }),
        'container d',
      )
    reach(...pods)
  })

  const dual = { podcidr: ['10.240.0.0/24', 'fd00:240::/64'] }
  const wider = { podcidr: ['10.240.0.0/23', 'fd00:240::/64'] }
  const files = () => stateOf(host, 'net').directory
  const lose = () => rmSync(files(), { recursive: true })
  const makeForeign = () => {
    for (const name of readdirSync(files(), { recursive: true, encoding: 'utf8' })) {
      const file = `${files()}/${name}`
      if (!statSync(file).isFile()) continue
      writeFileSync(file, readFileSync(file, 'utf8').replace('"format":1', '"format":2'))
    }
  }
  it.each<[string, () => void, Readonly<Record<string, unknown>>]>([
    ['lost', lose, dual],
    ['lost, and the network renamed', lose, { ...dual, name: 'renamed' }],
    ['of another format', makeForeign, dual],
    ['lost, and the range edited', () => rmSync(stateOf(host, 'net').finished('a')), wider],
  ])('whose records are %s keep nothing from their range', (_, damage, more) => {
    const pods = ['a', 'b'].map((id) => attach(host, routed(dual), { id }))
    damage()
    const conf = routed(more)
    expectSilent(statusOnNode(host, conf))
    const young = attach(host, conf, { id: 'young' })
    reach(...pods, young)
    expectSilent(later(host, 'CHECK', { conf, pod: young }))
  })

  it('of a network without any make room for a bridge, and are refused then', () => {
    const pod = attach(host, routed({ name: 'first' }))
    expectSilent(later(host, 'DEL', { conf: routed({ name: 'first' }), pod }))
    const bridged = attach(host, netConf({ name: 'second' }), { id: 'bridged' })
    refusedAdd(routed({ name: 'first' }), 'overlaps 10.240.0.1/24 of network second on cni0')
    reach(bridged)
  })
})

describe('an IPv6 range', () => {
  it('equal to the subnet of the node is refused like an IPv4 one', () => {
    plug('eth9', '2001:db8:0:2::10/64', '192.0.2.10/24')
    for (const more of [{}, { mode: 'ptp' }]) {
      refusedAdd(netConf({ podcidr: '2001:db8:0:2::/64', ...more }), 'overlaps 2001:db8:0:2::10/64 of eth9')
      refusedAdd(netConf({ podcidr: ['10.1.0.0/24', '2001:db8:0:2::/64'], ...more }), '2001:db8:0:2::10/64 of eth9')
    }
  })

  it.each(['bridge', 'ptp'])(
    'of the node is refused beside live pods, where IPv4 is kept and where it is alone: %s',
    (mode) => {
      plug('eth9', '2001:db8:0:2::10/64')
      attach(host, netConf({ mode, podcidr: '10.240.0.0/24' }))
      const node = '2001:db8:0:2::/64'
      for (const podcidr of [['10.240.0.0/24', node], node])
        refusedAdd(netConf({ mode, podcidr }), 'the range 2001:db8:0:2::/64 overlaps 2001:db8:0:2::10/64 of eth9')
    },
  )
})

describe('another mode', () => {
  it.each<[string, object, object, RegExp]>([
    ['bridge to ptp', netConf(), routed(), /10\.240\.0\.0\/24 .*bridge cni0, .*2 pods/],
    [
      'ptp to bridge',
      routed(),
      netConf(),
      /10\.240\.0\.0\/24 .*2 pods of network net in mode ptp, which pods on bridge cni0/,
    ],
  ])('%s is refused while pods of the other one live in the range', (_, from, to, message) => {
    const pods = ['a', 'b'].map((id) => attach(host, from, { id }))
    refusedAdd(to, message)
    refusedAdd(Object.assign({}, to, { podcidr: '10.240.0.0/16' }), /cni0/)
    reach(...pods)
    expectSilent(later(host, 'DEL', { conf: to, pod: pods[0] as Pod }))
    refusedAdd(to, /1 pod\b/)
    expectSilent(later(host, 'DEL', { conf: to, pod: pods[1] as Pod }))
    const young = ['c', 'd'].map((id) => attach(host, to, { id }))
    expect(bridges()).toEqual('mode' in to ? [] : ['cni0'])
    reach(...young)
  })

  it('with another range is taken: pods of both modes keep their network', () => {
    const old = attach(host, netConf())
    const young = attach(host, routed({ podcidr: '10.241.0.0/24' }), { id: 'young' })
    const back = attach(host, netConf({ podcidr: '10.242.0.0/24', bridge: 'br7' }), { id: 'back' })
    reach(old, young, back)
  })
})

describe('an address that a live pod has', () => {
  const fixed = (address: string, more: Readonly<Record<string, unknown>> = {}) =>
    ipamConf({ type: 'static', addresses: [{ address, gateway: '10.240.0.1' }] }, more)
  const scripted = <T>(address: string, body: (path: string) => T): T => {
    const plugin = installIpam({
      ADD: answer(
        JSON.stringify({
          cniVersion: '1.1.0',
          ips: [{ address, gateway: '10.240.0.1' }],
        }),
      ),
    })
    try {
      return body(plugin.path)
    } finally {
      plugin.remove()
    }
  }

  it('is given to no pod of the pool, whoever chose it', () => {
    attach(host, fixed('10.240.0.2/24'), { id: 'static' })
    scripted('10.240.0.3/24', (path) => attach(host, ipamConf({ type: 'scripted' }), { id: 'scripted', path }))
    expect(attach(host, netConf(), { id: 'pool' }).address).toBe('10.240.0.4')
  })

  it('is free for the pool of another network with the end of its pod', () => {
    const conf = fixed('10.240.0.2/24', { name: 'static' })
    const pod = attach(host, conf, { id: 'static' })
    const asked = netConf({ runtimeConfig: { ips: ['10.240.0.2'] } })
    const call = { id: 'asked', netns: host.pod('asked') }
    expect(attach(host, netConf(), { id: 'pool' }).address).toBe('10.240.0.3')
    expectError(host.cni('ADD', asked, call), 102, /container static/)
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(attach(host, asked, call).address).toBe('10.240.0.2')
    expect(readFileSync(stateOf(host, 'net').shared, 'utf8')).not.toContain('excluded')
  })

  it.each(['net', 'other'])('is refused to static and to another plugin, for network %s', (name) => {
    const pod = attach(host, netConf())
    refused(fixed(pod.result.ips[0]?.address ?? '', { name }))
    scripted('10.240.0.2/24', (path) => {
      const netns = host.pod('scripted')
      const before = snapshot(host)
      const added = host.cni('ADD', ipamConf({ type: 'scripted' }, { name }), { id: 'scripted', netns, path })
      expectError(added, 102, /10\.240\.0\.2 is not available.*container c1/s)
      expectNothingLeft(host, before)
    })
    attach(host, fixed('10.240.0.2/24', { name, allowOverlap: true }), {
      id: 'meant',
    })
  })

  it('is free with the end of its pod, and with one that is dead', () => {
    for (const id of ['a', 'b']) {
      const pod = attach(host, fixed('10.240.0.9/24'), { id })
      expectSilent(later(host, 'CHECK', { conf: fixed('10.240.0.9/24'), pod }))
      if (id === 'a') expectSilent(later(host, 'DEL', { conf: fixed('10.240.0.9/24'), pod }))
      else host.removePod(pod.netns)
    }
    attach(host, fixed('10.240.0.9/24'), { id: 'c' })
  })

  it.each(['10.240.0.1', undefined])('is not its own gateway: %s', (gateway) => {
    const conf = ipamConf({ type: 'static', addresses: [{ address: '10.240.0.1/24', gateway }] })
    expectError(host.cni('ADD', conf, { id: 'own', netns: host.pod('own') }), 7, 'is its own gateway')
  })

  it('nor one that another plugin gives, nor its network has for live pods', () => {
    const other = ipamConf({ type: 'scripted' })
    const gives = (address: string, gateway?: string) =>
      JSON.stringify({ cniVersion: '1.1.0', ips: [{ address, gateway }] })
    const added = (result: string, id: string) => {
      const plugin = installIpam({ ADD: answer(result) })
      try {
        return host.cni('ADD', other, { id, netns: host.pod(id), path: plugin.path })
      } finally {
        plugin.remove()
      }
    }
    expectError(added(gives('10.240.0.1/24'), 'own'), 102, 'is its own gateway')
    expect(added(gives('10.240.0.5/24'), 'a').code).toBe(0)
    expectError(
      added(gives('10.240.0.1/24', '10.240.0.254'), 'b'),
      102,
      /10\.240\.0\.1 is not .*network net as its gateway/s,
    )
    const [first, second] = ['10.241.0.5/24', '10.241.0.254/24'].map((address) => ({
      address,
      gateway: '10.241.0.254',
    }))
    const still = (ips: object, more: object) =>
      ipamConf({ type: 'static', addresses: [ips] }, { name: 's', bridge: 'brs', ...more })
    const pod = attach(host, still(first as object, {}), { id: 's' })
    const ungated = still({ address: second?.address }, { isGateway: false, isDefaultGateway: false })
    const netns = host.pod('t')
    expectError(host.cni('ADD', ungated, { id: 't', netns }), 102, /network s as its gateway/)
    expectSilent(later(host, 'DEL', { conf: ungated, pod }))
    attach(host, ungated, { id: 't', netns })
  })

  it('of a host device is refused to another pod of its network', () => {
    for (const name of ['hd1', 'hd2']) plug(name)
    const conf = (device: string) =>
      fixed('10.240.0.2/24', { mode: 'host-device', device, isDefaultGateway: undefined })
    attach(host, conf('hd1'))
    refused(conf('hd2'))
  })

  it('is not free in another network where its reservation cannot be read', () => {
    const pod = attach(host, netConf())
    const other = netConf({ name: 'other' })
    attach(host, other, { id: 'b' })
    writeFileSync(stateOf(host, 'net').address(pod.address), '')
    const netns = host.pod('c')
    expectError(host.cni('ADD', other, { id: 'c', netns, args: `IP=${pod.address}` }), 102, 'cannot be read')
  })

  it("that is the node's, or a gateway of another range set, is refused to a request and not given out", () => {
    expect(host.run('ip', ['addr', 'add', '10.240.0.2/32', 'dev', 'lo']).code).toBe(0)
    expect(attach(host, netConf()).address).toBe('10.240.0.3')
    const ask = () =>
      host.cni('ADD', netConf(), { id: 'b', netns: host.pod(`b${performance.now()}`), args: 'IP=10.240.0.2' })
    expectError(ask(), 102, 'address of the node, on lo')
    expect(host.run('ip', ['addr', 'del', '10.240.0.2/32', 'dev', 'lo']).code).toBe(0)
    expect(ask().code).toBe(0)
    const set = (rangeStart: string, rangeEnd: string, gateway: string) => [
      { subnet: '10.2.0.0/24', rangeStart, rangeEnd, gateway },
    ]
    const sets = [set('10.2.0.10', '10.2.0.12', '10.2.0.20'), set('10.2.0.20', '10.2.0.22', '10.2.0.1')]
    const two = ipamConf({ type: 'trestle', ranges: sets }, { name: 'two', bridge: 'br2' })
    expect(attach(host, two, { id: 'two' }).result.ips.map(({ address }) => address)).toEqual([
      '10.2.0.10/24',
      '10.2.0.21/24',
    ])
    expectError(host.cni('ADD', two, { id: 'x', netns: host.pod('x'), args: 'IP=10.2.0.20' }), 102, 'gateway')
  })

  const refused = (conf: object) => {
    const netns = host.pod('refused')
    const before = snapshot(host)
    expectError(host.cni('ADD', conf, { id: 'refused', netns }), 102, /10\.240\.0\.2 is not available.*container c1/s)
    expectNothingLeft(host, before)
    host.removePod(netns)
  }
})

describe('pods without a gateway on the host', () => {
  const layer2 = (more: object) =>
    netConf({ podcidr: undefined, ipam: { type: 'trestle', subnet: '10.240.0.0/24' }, ...more })

  it.each<[string, object]>([
    ['mode ptp', netConf({ mode: 'ptp' })],
    ['another bridge', netConf({ bridge: 'br7' })],
    ['another bridge, without a gateway, too', layer2({ bridge: 'br7' })],
  ])('keep the range of their network from %s', (_, to) => {
    const pod = attach(host, layer2({}))
    refusedAdd(to, /10\.240\.0\.0\/24 overlaps 10\.240\.0\.2 of bridge cni0, with 1 pod/)
    attach(host, layer2({}), { id: 'beside' })
    for (const id of ['c1', 'beside']) expectSilent(host.cni('DEL', to, { id, netns: pod.netns }))
    attach(host, to, { id: 'young' })
  })

  it('are on two bridges where it is allowed, or the ranges are two', () => {
    attach(host, layer2({}))
    attach(host, layer2({ bridge: 'br7', allowOverlap: true }), { id: 'meant' })
    attach(host, layer2({ bridge: 'br8', ipam: { type: 'trestle', subnet: '10.241.0.0/24' } }), { id: 'apart' })
  })
})

describe('gateways of several networks on a bridge', () => {
  it('with one range inside the other: CHECK of both finds what it expects', () => {
    const confs = ['10.240.0.0/24', '10.240.0.0/16'].map((podcidr, at) => netConf({ name: `net${at}`, podcidr }))
    const pods = confs.map((conf, at) => ({ conf, pod: attach(host, conf, { id: `pod${at}` }) }))
    for (const each of pods) expectSilent(later(host, 'CHECK', each))
  })

  it('with one IPv6 address and two prefix lengths: the second is refused, or replaces the first', () => {
    const [first, second] = [netConf({ name: 'first', podcidr: 'fd01::/80' }), netConf({ podcidr: 'fd01::/64' })]
    const pod = attach(host, first)
    const netns = host.pod('refused')
    const before = snapshot(host)
    expectError(host.cni('ADD', second, { id: 'refused', netns }), 108, 'different from fd01::1/64: fd01::1/80')
    expectNothingLeft(host, before)
    reach(pod)
    const forced = { ...second, forceAddress: true }
    const wide = attach(host, forced, { id: 'wide' })
    expectSilent(later(host, 'CHECK', { conf: forced, pod: wide }))
    expectSilent(later(host, 'CHECK', { conf: first, pod }))
    expect(addressesOf(host, host.path, 'cni0')).toEqual(['fd01::1/64'])
    for (const { netns: each } of [pod, wide]) expect(pings(host, each, 'fd01::1')).toBe(true)
  })

  it("stay where live pods of a network that has moved have them, also with another's forceAddress", () => {
    const first = attach(host, netConf({ name: 'first' }), { id: 'first' })
    attach(host, netConf({ podcidr: '10.241.0.0/24' }), { id: 'before' })
    attach(host, netConf({ name: 'first', bridge: 'br7', podcidr: '10.242.0.0/24' }), { id: 'moved' })
    const forced = netConf({ podcidr: '10.243.0.0/24', forceAddress: true })
    const young = attach(host, forced, { id: 'young' })
    expect(addressesOf(host, host.path, 'cni0')).toEqual(['10.240.0.1/24', '10.243.0.1/24'])
    for (const pod of [first, young]) expect(pings(host, pod.netns, pod.result.ips[0]?.gateway ?? '')).toBe(true)
  })

  it.each(['bridge', 'ptp'])('are no addresses of pods, whichever network was there first: %s', (mode) => {
    const second = netConf({
      name: 'second',
      mode,
      isDefaultGateway: true,
      podcidr: undefined,
      ipam: {
        type: 'trestle',
        subnet: '10.240.0.0/24',
        gateway: '10.240.0.3',
      },
    })
    attach(host, netConf({ mode }))
    if (mode === 'bridge') attach(host, second, { id: 'second' })
    else expectError(host.cni('ADD', second, { id: 'second', netns: host.pod('second') }), 110)
    const third = attach(host, netConf({ mode }), { id: 'third' })
    expect(third.address).toBe(mode === 'bridge' ? '10.240.0.5' : '10.240.0.3')
    const asked = netConf({ mode, runtimeConfig: { ips: ['10.240.0.3'] } })
    expectError(
      host.cni('ADD', asked, { id: 'asked', netns: host.pod('asked') }),
      102,
      /network second|container third/,
    )
  })
})
