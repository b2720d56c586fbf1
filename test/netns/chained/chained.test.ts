// SPDX-License-Identifier: Apache-2.0
// trestle after another plugin of the same list, itself for one: the same ids, told apart by configuration.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, interfacesOf, netConf, type Pod } from '../../support/traffic/pods.ts'

const main = netConf()
const second = { cniVersion: '1.1.0', name: 'net', type: 'trestle', portmap: { snat: true } }

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

/** A list of two, as libcni runs it. */
function attachBoth(): Pod {
  const pod = attach(host, main)
  const chained = host.cni('ADD', { ...second, prevResult: pod.result }, pod.call)
  expect(chained.code, chained.stdout).toBe(0)
  expect(chained.json).toEqual(pod.result)
  return pod
}

describe('chained', () => {
  it('passes prevResult on, keys it does not know included', () => {
    const pod = attach(host, main)
    const prevResult = { ...pod.result, 'x.test/more': { a: [1] }, routes: [{ dst: '10.0.0.0/8', priority: 0 }] }
    const chained = host.cni('ADD', { ...second, prevResult }, pod.call)
    expect(chained.json).toMatchObject({
      'x.test/more': { a: [1] },
      interfaces: pod.result.interfaces,
      ips: pod.result.ips,
    })
  })

  it('is checked and deleted in reverse order, each plugin its own part', () => {
    const pod = attachBoth()
    const prevResult = pod.result
    for (const conf of [main, second]) expectSilent(host.cni('CHECK', { ...conf, prevResult }, pod.call))
    expectSilent(host.cni('DEL', { ...second, prevResult }, pod.call))
    expect(interfacesOf(host, pod.netns)).toEqual(['eth0'])
    expectSilent(host.cni('CHECK', { ...main, prevResult }, pod.call))
    expectSilent(host.cni('DEL', { ...main, prevResult }, pod.call))
    expectNothingLeft(host, before)
  })

  it('keeps the MAC check of the interface when an entry that did nothing is deleted', () => {
    const conf = { ...main, macspoofchk: true }
    const pod = attach(host, conf)
    expect(host.cni('ADD', { ...second, prevResult: pod.result }, pod.call).code).toBe(0)
    expectSilent(host.cni('DEL', { ...second, prevResult: pod.result }, pod.call))
    expectSilent(host.cni('CHECK', { ...conf, prevResult: pod.result }, pod.call))
    expect(host.run('nft', ['list', 'set', 'bridge', 'trestle', 'guarded']).stdout).toContain(pod.hostLink)
  })

  it('asks no IPAM plugin, whatever its ipam key says', () => {
    const pod = attach(host, main)
    const withIpam = { ...second, ipam: { type: 'nosuch' }, prevResult: pod.result }
    for (const verb of ['ADD', 'CHECK', 'DEL'] as const)
      expect(host.cni(verb, withIpam, pod.call), verb).toMatchObject({ code: 0, stderr: '' })
  })

  it('leaves nothing when the runtime sends each DEL again without namespace and prevResult', () => {
    const pod = attachBoth()
    for (const conf of [second, main]) expectSilent(host.cni('DEL', { ...conf, prevResult: pod.result }, pod.call))
    for (const conf of [second, main]) expectSilent(host.cni('DEL', conf, { ...pod.call, netns: '' }))
    expectNothingLeft(host, before)
  })

  it('leaves nothing when both configurations have changed meanwhile', () => {
    const pod = attachBoth()
    for (const conf of [
      { ...second, mtu: 1300 },
      { ...main, podcidr: '10.99.0.0/24' },
    ]) {
      expectSilent(host.cni('DEL', { ...conf, prevResult: pod.result }, pod.call))
    }
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expectNothingLeft(host, before)
  })

  it('a second ADD of it is refused', () => {
    const pod = attachBoth()
    expectError(host.cni('ADD', { ...second, prevResult: pod.result }, pod.call), 103)
  })

  it('by mode without a prevResult is refused', () => {
    expectError(host.cni('ADD', { ...second, mode: 'chained' }, { netns: host.pod('a') }), 7, 'prevResult')
    expectNothingLeft(host, before)
  })

  it('after a result of another shape of version is refused', () => {
    const pod = attach(host, main)
    const old = { cniVersion: '0.2.0', ip4: { ip: '10.1.1.1/24' } }
    expectError(host.cni('ADD', { ...second, prevResult: old }, pod.call), 7, 'prevResult')
    expectSilent(host.cni('CHECK', { ...main, prevResult: pod.result }, pod.call))
  })

  it('is removed by GC with the rest of its attachment, and kept with it', () => {
    const pod = attachBoth()
    const list = [{ containerID: pod.id, ifname: 'eth0' }]
    for (const conf of [main, second]) expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': list }))
    for (const conf of [main, second]) expectSilent(host.cni('CHECK', { ...conf, prevResult: pod.result }, pod.call))
    for (const conf of [main, second]) expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [] }))
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expectNothingLeft(host, before)
  })
})
