// SPDX-License-Identifier: Apache-2.0
// mode `loopback` in place of the upstream loopback plugin.

import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectUntouched } from '../../support/allowance.ts'
import { type Host, openHost, type Snapshot, snapshot, trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, interfacesOf, netConf } from '../../support/traffic/pods.ts'

const loopback = { cniVersion: '1.1.0', name: 'lo-net', type: 'trestle', mode: 'loopback' }

let host: Host
let netns: string
let before: Snapshot
beforeEach(() => {
  host = openHost()
  netns = host.pod('a')
  host.inPod(netns, 'ip', ['link', 'set', 'lo', 'down'])
  before = snapshot(host)
})
afterEach(() => host.close())

function isUp(): boolean {
  return host.inPod(netns, 'ip', ['link', 'show', 'lo']).stdout.includes(',UP')
}

describe('loopback', () => {
  for (const cniVersion of ['0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0']) {
    it(`sets lo up and down again, version ${cniVersion}`, () => {
      const conf = { ...loopback, cniVersion }
      const added = host.cni('ADD', conf, { netns, ifName: 'any0' })
      expect(added.json, added.stdout).toMatchObject({
        cniVersion,
        interfaces: [{ name: 'lo', mac: '00:00:00:00:00:00', sandbox: netns }],
        ips: [
          { address: '127.0.0.1/8', interface: 0 },
          { address: '::1/128', interface: 0 },
        ],
      })
      expect(isUp()).toBe(true)
      expectSilent(host.cni('DEL', { ...conf, prevResult: added.json }, { netns, ifName: 'any0' }))
      expect(isUp()).toBe(false)
      expectSilent(host.cni('DEL', conf, { netns: '', ifName: 'any0' }))
      expectUntouched(host, before)
    })
  }

  for (const cniVersion of ['0.1.0', '0.2.0']) {
    it(`has a result of version ${cniVersion}`, () => {
      const added = host.cni('ADD', { ...loopback, cniVersion }, { netns })
      expect(added.json).toMatchObject({ cniVersion, ip4: { ip: '127.0.0.1/8' }, ip6: { ip: '::1/128' } })
    })
  }

  // containerd, without use_internal_loopback: go-cni's WithLoNetwork.
  it('is the mode of a link that is named loopback, by the configuration that containerd sends', () => {
    const file = join(host.stateDir, 'loopback')
    symlinkSync(trestle, file)
    const conf = { cniVersion: '0.3.1', name: 'cni-loopback', type: 'loopback' }
    const call = { netns, ifName: 'lo', file }
    const newer = { ...conf, cniVersion: '1.1.0' }
    expectError(host.cni('CHECK', newer, call), 107, 'loopback interface is down')
    const added = host.cni('ADD', conf, call)
    expect(added.json, added.stdout).toMatchObject({
      interfaces: [{ name: 'lo' }],
      ips: [{ address: '127.0.0.1/8' }, {}],
    })
    expect(isUp()).toBe(true)
    expectSilent(host.cni('CHECK', newer, call))
    expectSilent(host.cni('DEL', conf, call))
    expect(isUp()).toBe(false)
  })

  // The call of upstream's own tests (plugins/main/loopback/loopback_test.go).
  it('is so too without a type, and with a CNI_ARGS that holds no pairs', () => {
    const file = join(host.stateDir, 'loopback')
    symlinkSync(trestle, file)
    before = snapshot(host)
    const conf = { cniVersion: '1.0.0', name: 'test' }
    const call = { netns, ifName: 'lo', file, args: 'none' }
    const added = host.cni('ADD', conf, call)
    expect(added.json, added.stdout).toMatchObject({ interfaces: [{ name: 'lo' }] })
    expect(isUp()).toBe(true)
    expectSilent(host.cni('CHECK', { ...conf, prevResult: added.json }, call))
    expectSilent(host.cni('DEL', conf, call))
    expect(isUp()).toBe(false)
    expectUntouched(host, before)
  })

  it('passes prevResult on as it is', () => {
    const prevResult = {
      cniVersion: '1.1.0',
      interfaces: [{ name: 'eth0', sandbox: netns }],
      ips: [{ address: '10.1.1.2/24', interface: 0 }],
      'x.test/more': { a: [1] },
    }
    expect(host.cni('ADD', { ...loopback, prevResult }, { netns }).json).toEqual(prevResult)
    expect(isUp()).toBe(true)
  })

  it('CHECK names lo when it is down, also without a prevResult', () => {
    expectError(host.cni('CHECK', loopback, { netns }), 107, 'loopback interface is down')
    const prevResult = host.cni('ADD', loopback, { netns }).json
    for (const conf of [loopback, { ...loopback, prevResult }]) expectSilent(host.cni('CHECK', conf, { netns }))
  })

  it('refuses an address that is no loopback address', () => {
    host.inPod(netns, 'ip', ['addr', 'add', '10.9.9.9/32', 'dev', 'lo'])
    expectError(host.cni('ADD', loopback, { netns }), 7, 'non-loopback address "10.9.9.9/32"')
  })

  it('without IPv6 has the IPv4 address only', () => {
    host.inPod(netns, 'sysctl', ['-qw', 'net.ipv6.conf.all.disable_ipv6=1'])
    expect(host.cni('ADD', loopback, { netns }).json?.ips.map((ip) => ip.address)).toEqual(['127.0.0.1/8'])
  })

  it('DEL leaves the pod of the same network alone, and the namespace trestle runs in', () => {
    const main = netConf({ name: 'lo-net' })
    const pod = attach(host, main, { netns })
    expectSilent(host.cni('DEL', { ...loopback, prevResult: pod.result }, pod.call))
    expect(interfacesOf(host, netns)).toEqual(['eth0'])
    expectSilent(host.cni('DEL', loopback, { netns: host.path }))
    expect(host.run('ip', ['link', 'show', 'lo']).stdout).toContain(',UP')
    expectSilent(host.cni('DEL', main, pod.call))
  })
})
