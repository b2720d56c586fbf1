// SPDX-License-Identifier: Apache-2.0
// A configuration that is edited while pods live (contract, section 8): what is new is added at once; what goes or changes
// and has pods is refused (110) with their number, while STATUS stays 0; what has no pods is changed at once.

import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateOf } from '../../support/state-layout.ts'
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
const attachAll = (conf: object, ...ids: readonly string[]) => ids.map((id) => attach(host, conf, { id }))
const remove = (conf: object, ...pods: readonly Pod[]) => {
  for (const pod of pods) expectSilent(later(host, 'DEL', { conf, pod }))
}
/** Each reaches all others and its gateway, where the host has one. */
const reach = (...pods: readonly Pod[]) => {
  const onHost = host.run('ip', ['-o', 'addr']).stdout
  const isReachable = (address = '') => address !== '' && (onHost.includes(` ${address}/`) || !isGateway(address))
  const isGateway = (address: string) =>
    pods.some(({ result }) => result.ips.some(({ gateway }) => gateway === address))
  const all = pods.flatMap(({ result }) => result.ips.flatMap(({ address, gateway }) => [bare(address), gateway]))
  for (const pod of pods)
    for (const address of new Set(all.filter(isReachable)))
      expect(pings(host, pod.netns, address), `${pod.id} to ${address}`).toBe(true)
}
const bare = (cidr: string) => cidr.replace(/\/.*/, '')
const areWell = (conf: object, ...pods: readonly Pod[]) => {
  reach(...pods)
  for (const pod of pods) expectSilent(later(host, 'CHECK', { conf, pod }))
}
const routed = (more: Readonly<Record<string, unknown>> = {}) => netConf({ mode: 'ptp', ...more })
const pool = (ipam: object, more: Readonly<Record<string, unknown>> = {}) =>
  ipamConf({ type: 'trestle', subnet: '10.240.0.0/24', ...ipam }, more)
const layer2 = (more: Readonly<Record<string, unknown>> = {}) => pool({}, { isDefaultGateway: false, ...more })

const four = '10.240.0.0/24'
const six = 'fd00:240::/64'
const both = netConf({ podcidr: [four, six] })

describe('under pods is refused, and done at once after the last one', () => {
  it.each<[string, object, object, string]>([
    ['another range', netConf(), netConf({ podcidr: '10.241.0.0/24' }), `the range ${four}`],
    ['a wider range', netConf(), netConf({ podcidr: '10.240.0.0/16' }), `the range ${four}`],
    ['one of two ranges', both, netConf({ podcidr: ['10.241.0.0/24', six] }), `the range ${four}`],
    ['one range less', both, netConf({ podcidr: four }), `the range ${six}`],
    ['another gateway', pool({}), pool({ gateway: '10.240.0.254' }), 'the gateway 10.240.0.1'],
    ['another bridge', netConf(), netConf({ bridge: 'br7' }), 'bridge cni0'],
    ['another bridge, without a gateway', layer2(), layer2({ bridge: 'br7' }), 'bridge cni0'],
    ['a whole move', netConf(), netConf({ bridge: 'br7', podcidr: '10.241.0.0/24' }), 'bridge cni0'],
    ['bridge to ptp', netConf(), routed(), 'mode bridge'],
    ['ptp to bridge', routed(), netConf(), 'mode ptp'],
    ['another range of routed pods', routed(), routed({ podcidr: '10.241.0.0/24' }), `the range ${four}`],
  ])('%s', (_, before, after, what) => {
    const [a, b] = attachAll(before, 'a', 'b') as [Pod, Pod]
    refusedAdd(after, new RegExp(`${what.replaceAll('.', '\\.')}.*with 2 pods`))
    for (const status of [statusOnNode(host, after), host.cni('STATUS', after)]) expectSilent(status)
    areWell(before, a, b)
    remove(after, a)
    refusedAdd(after, 'with 1 pod')
    remove(after, b)
    areWell(after, ...attachAll(after, 'c', 'd'))
    const { bridge = 'cni0', mode } = after as { bridge?: string; mode?: string }
    expect(bridges()).toEqual(mode === 'ptp' ? [] : [bridge])
  })

  it('another name, as an overlap', () => {
    const [pod] = attachAll(netConf(), 'a') as [Pod]
    const renamed = netConf({ name: 'renamed' })
    refusedAdd(renamed, `the range ${four} overlaps 10.240.0.1/24 of network net on cni0`)
    areWell(netConf(), pod)
    remove(netConf(), pod)
    areWell(renamed, ...attachAll(renamed, 'b', 'c'))
  })

  it('mode macvlan in place of bridge', () => {
    plug('up0', '192.0.2.2/24')
    attachAll(netConf(), 'a')
    refusedAdd(netConf({ mode: 'macvlan', master: 'up0', isDefaultGateway: false }), 'mode bridge')
  })

  it('also where the state of the network was lost', () => {
    const conf = netConf({ bridge: 'br8' })
    const [pod] = attachAll(conf, 'a') as [Pod]
    rmSync(stateOf(host, 'net').directory, { recursive: true })
    const added = host.cni('ADD', netConf({ bridge: 'br9' }), { id: 'refused', netns: host.pod('refused') })
    expectError(added, 110, /br8.*1 pod/)
    expect(bridges()).toEqual(['br8'])
    reach(pod)
  })

  it('but not under pods that are dead', () => {
    const [pod] = attachAll(netConf(), 'a') as [Pod]
    endPod(pod)
    attachAll(netConf({ bridge: 'br7' }), 'young')
    expect(bridges()).toEqual(['br7'])
    remove(netConf({ bridge: 'br7' }), pod)
  })
})

describe('under pods is done at once', () => {
  it('a new family', () => {
    const old = attachAll(netConf(), 'a')
    const young = attachAll(both, 'b', 'c')
    areWell(both, ...young)
    areWell(netConf(), ...old)
    expect(addressesOf(host, host.path, 'cni0')).toEqual(['10.240.0.1/24', 'fd00:240::1/64'])
  })

  it('another part of a range: rangeStart, rangeEnd, exclude', () => {
    const old = attachAll(pool({}), 'a')
    const part = pool({ rangeStart: '10.240.0.100', rangeEnd: '10.240.0.102', exclude: ['10.240.0.100'] })
    const [young] = attachAll(part, 'b') as [Pod]
    expect(young.address).toBe('10.240.0.101')
    reach(...old, young)
  })

  it('another subnet of a delegated plugin; its bridge stays that of its pods', () => {
    const lease = (bridge: string, address: string, gateway: string) => {
      const plugin = installIpam({ ADD: answer(JSON.stringify({ cniVersion: '1.1.0', ips: [{ address, gateway }] })) })
      const id = `${bridge}-${address.replaceAll(/\D/g, '-')}`
      try {
        const call = { id, netns: host.pod(id), path: plugin.path }
        return host.cni('ADD', ipamConf({ type: 'scripted' }, { bridge }), call)
      } finally {
        plugin.remove()
      }
    }
    expect(lease('cni0', '10.77.0.2/24', '10.77.0.1').code).toBe(0)
    expect(lease('cni0', '10.78.0.2/24', '10.78.0.1').code).toBe(0)
    expect(addressesOf(host, host.path, 'cni0')).toEqual(['10.77.0.1/24', '10.78.0.1/24'])
    expectError(lease('br7', '10.79.0.2/24', '10.79.0.1'), 110, /bridge cni0.*with 2 pods/)
  })

  it('but not a family that an interface has; the range of the pods is kept where one was given it later', () => {
    plug('eth9', '2001:db8:5::2/64')
    const pods = attachAll(netConf(), 'a')
    refusedAdd(
      netConf({ podcidr: [four, '2001:db8:5::/64'] }),
      'the range 2001:db8:5::/64 overlaps 2001:db8:5::2/64 of eth9',
    )
    runLine(host, 'ip addr add 10.240.0.9/26 dev eth9')
    rmSync(stateOf(host, 'net').shared)
    attachAll(netConf(), 'b')
    expectSilent(later(host, 'CHECK', { conf: netConf(), pod: pods[0] as Pod }))
  })
})

describe('a range without pods', () => {
  it.each([
    ['10.240.0.0/24', '10.240.0.0/25'],
    ['10.240.0.0/25', '10.240.0.0/24'],
    ['fd00:240::/64', 'fd00:240::/65'],
    ['fd00:240::/65', 'fd00:240::/64'],
  ])('gets another mask: %s, then %s', (before, after) => {
    remove(netConf({ podcidr: before }), attach(host, netConf({ podcidr: before })))
    const conf = netConf({ podcidr: after })
    areWell(conf, attach(host, conf, { id: 'young' }))
    expect(addressesOf(host, host.path, 'cni0')).toHaveLength(1)
  })

  it.each<[string, object, object]>([
    ['on another bridge', netConf({ name: 'first' }), netConf({ name: 'second', bridge: 'br7' })],
    ['routed', netConf({ name: 'first' }), routed({ name: 'second' })],
    ['on a bridge after routed pods', routed({ name: 'first' }), netConf({ name: 'second' })],
  ])('makes room for another network, which the first one cannot have back then: %s', (_, first, second) => {
    remove(first, ...attachAll(first, 'a'))
    const young = attachAll(second, 'b', 'c')
    areWell(second, ...young)
    const added = host.cni('ADD', first, { id: 'refused', netns: host.pod('refused') })
    expectError(added, 110, /overlaps .* of network second/)
    areWell(second, ...young)
  })

  it('is refused another bridge where the old one stays with its gateway: somebody else made it, or uses it', () => {
    const moved = netConf({ bridge: 'br7' })
    runLine(host, 'ip link add cni0 type bridge')
    remove(netConf(), attach(host, netConf()))
    refusedAdd(moved, 'overlaps 10.240.0.1/24 of cni0')
    runLine(host, 'ip link del cni0')
    const own = attach(host, netConf(), { id: 'own' })
    for (const line of ['link add tap9 type veth peer name tap9-peer', 'link set tap9 master cni0'])
      runLine(host, `ip ${line}`)
    remove(netConf(), own)
    refusedAdd(moved, 'overlaps 10.240.0.1/24 of cni0')
  })

  it("is an interface's by now, and its bridge is gone", () => {
    remove(netConf(), attach(host, netConf()))
    runLine(host, 'ip link del cni0')
    plug('eth9', '10.240.0.9/24')
    refusedAdd(netConf(), 'the range 10.240.0.0/24 overlaps 10.240.0.9/24 of eth9')
  })
})

describe('routed pods', () => {
  it('keep their range from other networks, routed or not', () => {
    const pods = attachAll(routed({ name: 'first' }), 'a')
    const theirs = /the range 10\.240\.0\.0\/\d+ overlaps 10\.240\.0\.\d\S* of network first in mode ptp/
    for (const second of [netConf(), netConf({ podcidr: '10.240.0.0/16' }), routed()])
      refusedAdd({ ...second, name: 'second' }, theirs)
    reach(...pods)
  })

  const files = () => stateOf(host, 'net').directory
  const makeForeign = () => {
    for (const name of readdirSync(files(), { recursive: true, encoding: 'utf8' })) {
      const file = `${files()}/${name}`
      if (statSync(file).isFile())
        writeFileSync(file, readFileSync(file, 'utf8').replace(/"format":\d+/, '"format":9999'))
    }
  }
  it.each<[string, () => void]>([
    ['lost', () => rmSync(files(), { recursive: true })],
    ['of another format', makeForeign],
  ])('whose records are %s keep nothing from their range', (_, damage) => {
    const conf = routed({ podcidr: [four, six] })
    const pods = attachAll(conf, 'a', 'b')
    damage()
    expectSilent(statusOnNode(host, conf))
    const [young] = attachAll(conf, 'young') as [Pod]
    reach(...pods, young)
    expectSilent(later(host, 'CHECK', { conf, pod: young }))
  })
})

describe('an address that a live pod has', () => {
  const fixed = (address: string, more: Readonly<Record<string, unknown>> = {}) =>
    ipamConf({ type: 'static', addresses: [{ address, gateway: '10.240.0.1' }] }, more)
  /** An ADD with a plugin that gives this address. */
  const leased = (id: string, address: string, gateway: string | undefined = '10.240.0.1') => {
    const plugin = installIpam({ ADD: answer(JSON.stringify({ cniVersion: '1.1.0', ips: [{ address, gateway }] })) })
    try {
      return host.cni('ADD', ipamConf({ type: 'scripted' }), { id, netns: host.pod(id), path: plugin.path })
    } finally {
      plugin.remove()
    }
  }
  const refused = (add: () => ReturnType<Host['cni']>, message: RegExp = /10\.240\.0\.2 is not available.*c1/s) => {
    const before = snapshot(host)
    expectError(add(), 102, message)
    expectNothingLeft(host, before)
  }

  it('is given to no pod of the pool, whoever chose it', () => {
    attach(host, fixed('10.240.0.2/24'), { id: 'static' })
    expect(leased('scripted', '10.240.0.3/24').code).toBe(0)
    expect(attach(host, netConf(), { id: 'pool' }).address).toBe('10.240.0.4')
  })

  it('is refused to static and to another plugin, unless it is meant', () => {
    attach(host, netConf())
    const netns = host.pod('refused')
    refused(() => host.cni('ADD', fixed('10.240.0.2/24'), { id: 'refused', netns }))
    refused(() => leased('scripted', '10.240.0.2/24'))
    attach(host, fixed('10.240.0.2/24', { allowOverlap: true }), { id: 'meant' })
  })

  it('is free with the end of its pod, and with one that is dead', () => {
    for (const id of ['a', 'b']) {
      const pod = attach(host, fixed('10.240.0.9/24'), { id })
      expectSilent(later(host, 'CHECK', { conf: fixed('10.240.0.9/24'), pod }))
      if (id === 'a') remove(fixed('10.240.0.9/24'), pod)
      else host.removePod(pod.netns)
    }
    attach(host, fixed('10.240.0.9/24'), { id: 'c' })
  })

  it('is not its own gateway, whoever gives it', () => {
    for (const gateway of ['10.240.0.1', undefined]) {
      const conf = ipamConf({ type: 'static', addresses: [{ address: '10.240.0.1/24', gateway }] })
      expectError(host.cni('ADD', conf, { id: 'own', netns: host.pod(`own${gateway}`) }), 7, 'is its own gateway')
    }
    expectError(leased('leased', '10.240.0.1/24'), 102, 'is its own gateway')
  })

  it('of a host device is refused to another pod of its network', () => {
    for (const name of ['hd1', 'hd2']) plug(name)
    const conf = (device: string) =>
      fixed('10.240.0.2/24', { mode: 'host-device', device, isDefaultGateway: undefined })
    attach(host, conf('hd1'))
    const netns = host.pod('refused')
    refused(() => host.cni('ADD', conf('hd2'), { id: 'refused', netns }))
  })

  it("that is the node's is refused to a request and not given out", () => {
    runLine(host, 'ip addr add 10.240.0.2/32 dev lo')
    expect(attach(host, netConf()).address).toBe('10.240.0.3')
    const ask = (id: string) => host.cni('ADD', netConf(), { id, netns: host.pod(id), args: 'IP=10.240.0.2' })
    expectError(ask('b'), 102, /10\.240\.0\.2 is not available.*the node/s)
    runLine(host, 'ip addr del 10.240.0.2/32 dev lo')
    expect(ask('c').code).toBe(0)
  })
})
