// SPDX-License-Identifier: Apache-2.0
// trestle after another plugin of the same list: the same ids, and an interface that is not ours. A list has one entry
// of trestle.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, type Snapshot, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, interfacesOf, netConf } from '../../support/traffic/pods.ts'
import { type RoutedPod, routedPod } from '../../support/traffic/routed-pods.ts'

const base = { cniVersion: '1.1.0', name: 'net', type: 'trestle' }
const runtimeConfig = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] }
/** An entry that acts on the interface, and one that has nothing to do. */
const acting = { ...base, runtimeConfig, ipMasq: true, bandwidth: { egressRate: 4_000_000 }, tuning: { mtu: 1400 } }
const idle = { ...base, portmap: { snat: true } }

let host: Host
let pod: RoutedPod
let before: Snapshot
beforeEach(() => {
  host = openHost()
  // Forwarding stays on, and the kernel adds anycast routes then.
  host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'])
  pod = routedPod(host, 'c1', 'calic1', '10.1.2.3', 'fd00:1::3')
  before = snapshot(host)
})
afterEach(() => host.close())

/** ADD that must succeed; the configuration with its result, as the later calls get it. */
function add<Conf extends object>(conf: Conf, to = pod) {
  const added = host.cni('ADD', { ...conf, prevResult: to.prevResult }, to.call)
  expect(added.code, added.stdout).toBe(0)
  return { ...conf, prevResult: added.json }
}

describe('chained', () => {
  it('passes prevResult on, keys that it does not know included', () => {
    const prevResult = { ...pod.prevResult, 'x.test/more': { a: [1] }, routes: [{ dst: '10.0.0.0/8', priority: 5 }] }
    expect(add(idle, { ...pod, prevResult }).prevResult).toEqual({ ...prevResult, cniVersion: '1.1.0' })
  })

  it.each([
    ['acts', acting],
    ['has nothing to do', idle],
  ])('that %s is checked and deleted, and the interface stays', (_, conf) => {
    const added = add(conf)
    expectSilent(host.cni('CHECK', added, pod.call))
    expectSilent(host.cni('DEL', added, pod.call))
    expect(interfacesOf(host, pod.call.netns)).toEqual(['eth0'])
    // The runtime may send it again, without namespace and prevResult.
    expectSilent(host.cni('DEL', conf, { ...pod.call, netns: '' }))
    expectNothingLeft(host, before)
  })

  it('asks no IPAM plugin, whatever its ipam key says', () => {
    const conf = { ...idle, ipam: { type: 'nosuch' }, prevResult: pod.prevResult }
    for (const verb of ['ADD', 'CHECK', 'DEL'] as const)
      expect(host.cni(verb, conf, pod.call), verb).toMatchObject({ code: 0, stderr: '' })
  })

  it.each([
    ['has changed', { ...base, mtu: 1300 }],
    ['is of a network of trestle', netConf({ podcidr: '10.99.0.0/24' })],
  ])('leaves nothing when the configuration %s by its DEL', (_, conf) => {
    const { prevResult } = add(acting)
    expectSilent(host.cni('DEL', { ...conf, prevResult }, pod.call))
    expectNothingLeft(host, before)
  })

  it('a second ADD of it is refused, and harms nothing', () => {
    const added = add(acting)
    expectError(host.cni('ADD', { ...acting, prevResult: pod.prevResult }, pod.call), 103, 'already has eth0')
    expectSilent(host.cni('CHECK', added, pod.call))
  })

  it('by mode without a prevResult is refused', () => {
    expectError(host.cni('ADD', { ...acting, mode: 'chained' }, pod.call), 7, 'prevResult')
    expectNothingLeft(host, before)
  })

  it('after a result of another shape of version is refused', () => {
    const prevResult = { cniVersion: '0.2.0', ip4: { ip: '10.1.1.1/24' } }
    expectError(host.cni('ADD', { ...acting, prevResult }, pod.call), 7, 'prevResult')
    expectNothingLeft(host, before)
  })

  it('is kept by a GC that lists it, and removed by one that does not', () => {
    const added = add(acting)
    const list = [{ containerID: pod.call.id, ifname: 'eth0' }]
    expectSilent(host.cni('GC', { ...acting, 'cni.dev/valid-attachments': list }))
    expectSilent(host.cni('CHECK', added, pod.call))
    expectSilent(host.cni('GC', { ...acting, 'cni.dev/valid-attachments': [] }))
    expectNothingLeft(host, before)
  })
})

describe('a second entry of trestle', () => {
  const cure = 'put its keys into the first'

  it('behind one that makes the interface is refused with the cure, and the pod can be deleted', () => {
    const main = attach(host, netConf(), { id: 'main' })
    const second = { ...base, tuning: { mtu: 1400 }, prevResult: main.result }
    expectError(host.cni('ADD', second, main.call), 7, cure)
    for (const conf of [second, netConf()]) expectSilent(host.cni('DEL', conf, main.call))
    expectNothingLeft(host, before)
  })

  // Its ids are those of a second ADD of the first: the error names both.
  it.each([
    ['acts', acting],
    ['has nothing to do', idle],
  ])('behind a chained one that %s is refused with the cure, and the pod can be deleted', (_, first) => {
    const { prevResult } = add(first)
    const second = { ...base, tuning: { mtu: 1300 }, prevResult }
    const refused = host.cni('ADD', second, pod.call)
    expectError(refused, refused.json?.code === 103 ? 103 : 7, cure)
    for (const conf of [second, { ...first, prevResult }]) expectSilent(host.cni('DEL', conf, pod.call))
    expectNothingLeft(host, before)
  })
})
