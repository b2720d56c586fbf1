// SPDX-License-Identifier: Apache-2.0
// A network that was given another name while its pods live: runtimes send DEL with the configuration of that moment.
// It is about the record of the old name once the pod's namespace is gone; never where the pod lives.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { recordName, reservedPorts, stateOf } from '../../support/state-layout.ts'
import { attach, interfacesOf, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { routedPod } from '../../support/traffic/routed-pods.ts'

const runtimeConfig = { portMappings: [{ hostPort: 8080, containerPort: 80 }] }
const main = netConf({ runtimeConfig })
const chained = { cniVersion: '1.1.0', name: 'net', type: 'trestle', mode: 'chained', runtimeConfig }
const ipam = netConf({ type: 'macvlan', podcidr: undefined, ipam: { type: 'trestle', subnet: '10.240.0.0/24' } })
const renamed = (conf: object, more = {}) => ({ ...conf, name: 'renamed', ...more })

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

/** Files of attachments of both names. */
const kept = () =>
  ['net', 'renamed', 'second'].flatMap((network) => {
    const { names } = stateOf(host, network)
    return [...names('attachments'), ...names('pending'), ...names('addresses')]
  })

describe('DEL under the new name of a network', () => {
  it.each([
    ['main', main],
    ['main and routed', netConf({ mode: 'ptp', runtimeConfig })],
    ['ipam', ipam],
  ])('frees record, address and port once the namespace is gone, and touches nothing before: %s', (_, conf) => {
    const pod = attach(host, conf)
    expectSilent(later(host, 'DEL', { conf: renamed(conf, { mtu: 1400 }), pod }))
    expectSilent(later(host, 'CHECK', { conf, pod }))
    host.removePod(pod.netns)
    for (const netns of [pod.netns, '']) expectSilent(later(host, 'DEL', { conf: renamed(conf), pod, call: { netns } }))
    expect([...kept(), ...reservedPorts(host)]).toEqual([])
    expectNothingLeft(host, before)
  })

  it('frees the ports of an interface that another plugin made', () => {
    const { call, prevResult } = routedPod(host, 'c1', 'cali1', '10.88.0.7')
    expect(host.cni('ADD', { ...chained, prevResult }, call).code).toBe(0)
    host.removePod(call.netns)
    expectSilent(host.cni('DEL', renamed(chained), { ...call, netns: '' }))
    expect([...kept(), ...reservedPorts(host)]).toEqual([])
    expectNothingLeft(host, before)
  })

  it('comes before an ADD under the new name: that is refused while the old pods live', () => {
    const pod = attach(host, netConf())
    expectError(host.cni('ADD', renamed(netConf()), { id: 'young', netns: host.pod('early') }), 110, 'network net')
    expectSilent(later(host, 'CHECK', { conf: netConf(), pod }))
    host.removePod(pod.netns)
    expectSilent(later(host, 'DEL', { conf: renamed(netConf()), pod }))
    const young = attach(host, renamed(netConf()), { id: 'young' })
    expect(kept()).toEqual([recordName('young'), young.address])
  })

  it('gives a lease back under the name that the delegated plugin knows it by', () => {
    const plugin = installIpam({ ADD: answer() })
    try {
      const conf = netConf({ podcidr: undefined, ipam: { type: 'scripted' } })
      const pod = attach(host, conf, { path: plugin.path })
      host.removePod(pod.netns)
      expectSilent(later(host, 'DEL', { conf: renamed(conf), pod }))
      expect(JSON.parse(plugin.stdin('DEL'))).toMatchObject({ name: 'net', ipam: { type: 'scripted' } })
      expect(kept()).toEqual([])
    } finally {
      plugin.remove()
    }
  })

  it('of a second interface (Multus, net1) leaves the first one alone', () => {
    const pod = attach(host, main)
    const secondary = netConf({
      name: 'second',
      podcidr: '10.250.0.0/24',
      bridge: 'br-second',
      isDefaultGateway: false,
    })
    const net1 = attach(host, secondary, { ...pod.call, ifName: 'net1' })
    const alone = stateOf(host, 'net').names('attachments')
    // Its own namespace lives on: nothing is touched. The DEL under its own name takes it down.
    for (const netns of [pod.netns, ''])
      expectSilent(later(host, 'DEL', { conf: renamed(secondary), pod: net1, call: { netns } }))
    expectSilent(later(host, 'CHECK', { conf: secondary, pod: net1 }))
    expectSilent(later(host, 'DEL', { conf: secondary, pod: net1 }))
    expect(interfacesOf(host, pod.netns)).toEqual(['eth0'])
    expect(stateOf(host, 'net').names('attachments')).toEqual(alone)
    expect(stateOf(host, 'second').names('addresses')).toEqual([])
    expectSilent(later(host, 'CHECK', { conf: main, pod }))
  })
})

describe('two networks of one runtime (max_conf_num 2: eth0 and eth1)', () => {
  const second = netConf({ name: 'second', podcidr: '10.250.0.0/24', bridge: 'br-second', isDefaultGateway: false })

  it('keep to themselves, however often DEL is sent', () => {
    const pod = attach(host, main)
    const eth1 = attach(host, second, { ...pod.call, ifName: 'eth1' })
    for (const netns of [pod.netns, '', '']) expectSilent(later(host, 'DEL', { conf: main, pod, call: { netns } }))
    expect(interfacesOf(host, pod.netns)).toEqual(['eth1'])
    expectSilent(later(host, 'CHECK', { conf: second, pod: eth1 }))
    expectSilent(later(host, 'DEL', { conf: second, pod: eth1 }))
    expectNothingLeft(host, before)
  })

  it('are freed where a new file has changed their order, once the namespace is gone', () => {
    const pod = attach(host, main)
    attach(host, second, { ...pod.call, ifName: 'eth1' })
    const [first, other] = [renamed(main, { bridge: 'br-new', podcidr: '10.251.0.0/24' }), main]
    for (const netns of [pod.netns, '']) {
      if (netns === '') host.removePod(pod.netns)
      for (const [conf, ifName] of [
        [first, 'eth0'],
        [other, 'eth1'],
      ] as const)
        expectSilent(host.cni('DEL', conf, { ...pod.call, netns, ifName }))
      if (netns !== '') expectSilent(later(host, 'CHECK', { conf: main, pod }))
    }
    expect(kept()).toEqual([])
    expectNothingLeft(host, before)
  })
})

describe('a pod that lives on another network', () => {
  /** The configuration differs in the name alone: nothing else tells the two networks apart. */
  const refused = renamed(netConf())
  const expectAlive = (pod: Pod) => {
    for (const netns of [pod.netns, '', '/run/netns/gone'])
      expectSilent(host.cni('DEL', refused, { ...pod.call, netns }))
    expectSilent(later(host, 'CHECK', { conf: main, pod }))
    expectSilent(later(host, 'DEL', { conf: main, pod }))
    expectNothingLeft(host, before)
  }

  it('is not taken for one of the network that refused it because its interface exists', () => {
    const pod = attach(host, main)
    expect([4, 110]).toContain(host.cni('ADD', refused, pod.call).json?.code)
    expectAlive(pod)
  })

  it('nor for one of a network whose ADD was killed', () => {
    const pod = attach(host, main)
    const state = stateOf(host, 'renamed')
    const { spec: _, ...record } = JSON.parse(readFileSync(stateOf(host, 'net').finished('c1'), 'utf8'))
    mkdirSync(state.directoryOf('pending'), { recursive: true, mode: 0o700 })
    writeFileSync(state.pending('c1'), JSON.stringify({ ...record, id: { ...record.id, network: 'renamed' } }))
    // Any later call of that network settles it.
    expectSilent(host.cni('DEL', refused, { id: 'c2', netns: '' }))
    expect(existsSync(state.pending('c1'))).toBe(false)
    expectAlive(pod)
  })
})
