// SPDX-License-Identifier: Apache-2.0
// trestle as the IPAM plugin of another: the configuration's type is not ours, addresses are all we give.

import { rmSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateOf } from '../../support/state-layout.ts'
import { attach, interfacesOf, netConf } from '../../support/traffic/pods.ts'

const conf = {
  cniVersion: '1.1.0',
  name: 'net',
  type: 'bridge',
  bridge: 'br-other',
  isGateway: true,
  ipMasq: true,
  ipam: {
    type: 'trestle',
    ranges: [[{ subnet: '10.240.0.0/24' }], [{ subnet: 'fd00:240::/64' }]],
    routes: [{ dst: '0.0.0.0/0' }, { dst: '2001:db8:2::1/64', gw: 'fd00:240::1' }],
  },
}

describe('delegated to', () => {
  let host: Host
  let before: ReturnType<typeof snapshot>
  beforeEach(() => {
    host = openHost()
    before = snapshot(host)
  })
  afterEach(() => host.close())

  it('ADD answers the abbreviated result and makes no interface', () => {
    const pod = attach(host, conf)
    expect(pod.result).toEqual({
      cniVersion: '1.1.0',
      ips: [
        { address: '10.240.0.2/24', gateway: '10.240.0.1' },
        { address: 'fd00:240::2/64', gateway: 'fd00:240::1' },
      ],
      routes: [{ dst: '0.0.0.0/0' }, { dst: '2001:db8:2::1/64', gw: 'fd00:240::1' }],
    })
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expectSilent(host.cni('CHECK', { ...conf, prevResult: pod.result }, pod.call))
    expectSilent(host.cni('STATUS', conf))
    expectSilent(host.cni('DEL', conf, pod.call))
    expectSilent(host.cni('DEL', conf, { ...pod.call, netns: '' }))
    expectNothingLeft(host, before)
    expect(host.run('ip', ['link', 'show', 'br-other']).code).not.toBe(0)
  })

  it('GC needs no tool', () => {
    attach(host, conf)
    const file = `${host.stateDir}/without-tools`
    const hidden = `for f in $(which -a ip nft); do mount --bind /dev/null "$f"; done; exec ${trestle}`
    const line = `exec unshare --mount --propagation private sh -c '${hidden}'`
    writeFileSync(file, `#!/bin/sh\n${line}\n`, { mode: 0o755 })
    expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [] }, { file }))
    rmSync(file)
    expectNothingLeft(host, before)
  })

  it.each([
    [
      '0.2.0',
      {
        cniVersion: '0.2.0',
        ip4: { ip: '10.240.0.2/24', gateway: '10.240.0.1', routes: [{ dst: '0.0.0.0/0' }] },
        dns: {},
      },
    ],
    [
      '0.4.0',
      {
        cniVersion: '0.4.0',
        ips: [{ version: '4', address: '10.240.0.2/24', gateway: '10.240.0.1' }],
        routes: [{ dst: '0.0.0.0/0' }],
        dns: {},
      },
    ],
  ])('ADD answers in version %s', (cniVersion, expected) => {
    const { ranges, routes } = conf.ipam
    const ipam = { ...conf.ipam, ranges: ranges.slice(0, 1), routes: routes.slice(0, 1) }
    expect(attach(host, { ...conf, cniVersion, ipam }).result).toEqual(expected)
  })

  it('CHECK misses a lost reservation', () => {
    const pod = attach(host, conf)
    expect(host.run('rm', [stateOf(host, 'net').address('10.240.0.2')]).code).toBe(0)
    expectError(host.cni('CHECK', { ...conf, prevResult: pod.result }, pod.call), 107, 'reservation of 10.240.0.2')
  })

  it('a second ADD is refused, and a full pool is told by STATUS', () => {
    const small = { ...conf, ipam: { type: 'trestle', subnet: '10.240.0.0/30' } }
    const pod = attach(host, small)
    expectError(host.cni('ADD', small, pod.call), 103)
    expectError(host.cni('ADD', small, { id: 'c2', netns: host.pod('b') }), 101)
    expectError(host.cni('STATUS', small), 50, 'no IP addresses available')
    expectSilent(host.cni('DEL', small, pod.call))
    expect(attach(host, small, { id: 'c3' }).address).toBe('10.240.0.2')
  })

  it('without addresses to give it refuses', () => {
    expectError(host.cni('ADD', { ...conf, ipam: undefined }, { netns: host.pod('a') }), 7, 'ipam')
    expectNothingLeft(host, before)
  })

  it('its DEL leaves an attachment of our own with the same ids alone', () => {
    const own = attach(host, netConf())
    const other = attach(host, conf, { id: own.id, netns: own.netns })
    expect(other.address).toBe('10.240.0.3')
    expectSilent(host.cni('DEL', conf, own.call))
    expect(interfacesOf(host, own.netns)).toEqual(['eth0'])
    expectSilent(host.cni('CHECK', { ...netConf(), prevResult: own.result }, own.call))
  })
})
