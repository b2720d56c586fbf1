// SPDX-License-Identifier: Apache-2.0
// Who an attachment is: network, container id and interface name. What is near one never harms it.

import { writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft, expectUntouched } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { addressesOf, attach, inPodJson, interfacesOf, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { pings, pingsOnce } from '../../support/traffic/traffic.ts'

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

const conf = netConf()

function expectWell(pod: Pod, sent: object = conf): void {
  expectSilent(later(host, 'CHECK', { conf: sent, pod }))
  expect(host.inPod(pod.netns, 'ping', ['-c1', '-w10', '10.240.0.1']).code).toBe(0)
}

describe('ADD', () => {
  it('of a live attachment is refused and harms nothing', () => {
    const pod = attach(host, conf)
    const made = snapshot(host)
    expectError(host.cni('ADD', conf, pod.call), 103, 'c1')
    expectError(host.cni('ADD', conf, { ...pod.call, netns: host.pod('other') }), 103, 'c1')
    expect(snapshot(host)).toEqual(made)
    expectWell(pod)
  })

  it('where the pod has an interface of that name is refused with code 4 and leaves that one', () => {
    const netns = host.pod('a')
    expect(host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'far']).code).toBe(0)
    expectError(host.cni('ADD', conf, { netns }), 4, 'eth0')
    expect(inPodJson(host, netns, ['link', 'show', 'eth0'])[0]?.link).toBe('far')
    expectNothingLeft(host, before)
  })

  it('as lo is refused with code 4, and nobody is told to remove lo', () => {
    const refused = host.cni('ADD', conf, { netns: host.pod('a'), ifName: 'lo' })
    expectError(refused, 4, 'CNI_IFNAME lo: an interface of that name is already')
    expect(refused.json?.details).not.toContain('ip link del')
    expectNothingLeft(host, before)
  })

  it('on a network that others use already, where the pod has an interface of that name, is refused as well', () => {
    const first = attach(host, conf, { id: 'c0' })
    const netns = host.pod('a')
    expect(host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'far']).code).toBe(0)
    const made = snapshot(host)
    expectError(host.cni('ADD', conf, { netns }), 4, 'eth0')
    expect(snapshot(host).links).toBe(made.links)
    expectWell(first)
  })

  it('into its own namespace is refused with code 4, whatever the path, and touches nothing', () => {
    for (const netns of [host.path, '/proc/self/ns/net', '/proc/thread-self/ns/net']) {
      expectError(host.cni('ADD', conf, { netns }), 4, 'CNI_NETNS')
    }
    expectUntouched(host, before)
  })

  it('into what is no network namespace is refused with code 4 and touches nothing', () => {
    const file = `${host.stateDir}-file`
    writeFileSync(file, '')
    for (const netns of [file, '/proc/self/ns/mnt', '/proc/self/ns/uts', '/proc', '/dev/null', `${file}/x`]) {
      expectError(host.cni('ADD', conf, { netns }), 4, 'CNI_NETNS')
    }
    host.run('rm', [file])
    expectUntouched(host, before)
  })
})

describe('the same container', () => {
  it('with two interfaces on one network: DEL of one leaves the other', () => {
    const first = attach(host, conf)
    const second = attach(host, conf, { netns: first.netns, ifName: 'net1' })
    expect(addressesOf(host, first.netns, 'net1')).toEqual(['10.240.0.3/24'])
    expectSilent(later(host, 'DEL', { conf, pod: second }))
    expect(interfacesOf(host, first.netns)).toEqual(['eth0'])
    expectWell(first)
  })

  it('on two networks: each CHECK and DEL is about its own', () => {
    const other = netConf({ name: 'other', bridge: 'br-other', podcidr: '10.250.0.0/24' })
    const first = attach(host, conf)
    const second = attach(host, other, { netns: first.netns, ifName: 'net1' })
    expectSilent(later(host, 'CHECK', { conf: other, pod: second }))
    expectWell(first)
    expectSilent(later(host, 'DEL', { conf, pod: first }))
    expect(interfacesOf(host, first.netns)).toEqual(['net1'])
    expectSilent(later(host, 'CHECK', { conf: other, pod: second }))
    expectSilent(later(host, 'DEL', { conf: other, pod: second }))
    expectNothingLeft(host, before)
  })

  it('with one interface name on two networks: DEL on one leaves the other', () => {
    const other = netConf({ name: 'other', bridge: 'br-other', podcidr: '10.250.0.0/24' })
    const first = attach(host, conf)
    const second = attach(host, other, { netns: host.pod('b') })
    expectSilent(later(host, 'DEL', { conf: other, pod: second }))
    expectWell(first)
  })
})

describe('the same pod', () => {
  const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web'

  it('in a new sandbox: ADD A1, ADD A2, DEL A1 leaves A2 alone', () => {
    const first = attach(host, conf, { id: 'a1', args })
    const second = attach(host, conf, { id: 'a2', args })
    expect(second.address).not.toBe(first.address)
    expectSilent(later(host, 'DEL', { conf, pod: first }))
    expectSilent(later(host, 'DEL', { conf, pod: first, call: { netns: '' } }))
    expectWell(second)
  })

  it('is named when its attachment is in the way', () => {
    const pod = attach(host, conf, { args })
    expectError(host.cni('ADD', conf, pod.call), 103, 'ns/web')
  })
})

describe('an address', () => {
  const ask = (ip: string) => ({ args: `IP=${ip}` })

  it('that changed hands stays with its new holder when the late DEL of the old one comes (nerdctl#3522: a late DEL frees the new pod)', () => {
    const first = attach(host, conf, { id: 'a1', ...ask('10.240.0.9') })
    host.removePod(first.netns)
    const second = attach(host, conf, { id: 'a2', ...ask('10.240.0.9') })
    expect(second.address).toBe('10.240.0.9')
    expectSilent(later(host, 'DEL', { conf, pod: first }))
    expectSilent(later(host, 'DEL', { conf, pod: first, call: { netns: '' } }))
    expectWell(second)
    expectError(host.cni('ADD', conf, { id: 'a3', netns: host.pod('a3'), ...ask('10.240.0.9') }), 102, '10.240.0.9')
  })

  it('comes with the same MAC for whoever has it, so that neighbours stay right', () => {
    const first = attach(host, conf, { id: 'a1', ...ask('10.240.0.9') })
    const watcher = attach(host, conf, { id: 'w' })
    expect(host.inPod(watcher.netns, 'ping', ['-c1', '-w10', '10.240.0.9']).code).toBe(0)
    expectSilent(later(host, 'DEL', { conf, pod: first }))
    const second = attach(host, conf, { id: 'a2', ...ask('10.240.0.9') })
    expect(second.result.interfaces[2]?.mac).toBe(first.result.interfaces[2]?.mac)
    expect(host.inPod(watcher.netns, 'ping', ['-c1', '-w3', '10.240.0.9']).code).toBe(0)
  })

  it('that was asked for comes with the same MAC beside another one of the other family', () => {
    const dual = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
    const first = attach(host, dual, { id: 'a1', ...ask('fd00:240::9') })
    const watcher = attach(host, dual, { id: 'w' })
    for (const netns of [watcher.netns, host.path]) expect(pings(host, netns, 'fd00:240::9')).toBe(true)
    expectSilent(later(host, 'DEL', { conf: dual, pod: first }))
    const second = attach(host, dual, { id: 'a2', ...ask('fd00:240::9') })
    expect(second.address).not.toBe(first.address)
    expect(second.result.interfaces[2]?.mac).toBe(first.result.interfaces[2]?.mac)
    for (const netns of [watcher.netns, host.path]) expect(pingsOnce(host, netns, 'fd00:240::9')).toBe(true)
  })
})
