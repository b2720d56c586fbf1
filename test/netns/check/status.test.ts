// SPDX-License-Identifier: Apache-2.0
// STATUS: no for what would make the next ADD fail, yes for all that ADD sets up by itself.

import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectUntouched } from '../../support/allowance.ts'
import { environment, type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { attach, ipamConf, netConf } from '../../support/traffic/pods.ts'

const conf = netConf()

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

describe('STATUS says yes', () => {
  it('on a fresh machine, and makes nothing', () => {
    const before = snapshot(host)
    expectSilent(host.cni('STATUS', conf))
    expectSilent(host.cni('STATUS', netConf({ podcidr: undefined })))
    expectUntouched(host, before)
  })

  it.each([
    ['the bridge', 'ip link del cni0'],
    ['the table', 'nft delete table inet trestle'],
    ['forwarding', 'sysctl -qw net.ipv4.ip_forward=0'],
  ])('where %s is gone: the next ADD sets it up', (_, line) => {
    attach(host, conf, { id: 'a' })
    runLine(host, line)
    expectSilent(host.cni('STATUS', conf))
    attach(host, conf, { id: 'b' })
  })

  it('where an excluded address was asked for: it takes no place of those that are given out', () => {
    const small = { type: 'host-local', subnet: '10.8.0.0/29', exclude: ['10.8.0.2/31', '10.8.0.4'] }
    for (const [id, ip] of [
      ['a', '10.8.0.2'],
      ['b', '10.8.0.3'],
    ] as const)
      attach(host, ipamConf(small, { runtimeConfig: { ips: [ip] } }), { id })
    expectSilent(host.cni('STATUS', ipamConf(small)))
    attach(host, ipamConf(small), { id: 'c' })
    attach(host, ipamConf(small), { id: 'd' })
    expectError(host.cni('STATUS', ipamConf(small)), 50, 'all 2 are in use')
    expectError(host.cni('ADD', ipamConf(small), { id: 'e', netns: host.pod('e') }), 101, '2 of 2 used')
  })

  it('where ranges come with ADD only', () => {
    expectSilent(host.cni('STATUS', ipamConf({ type: 'host-local' })))
  })
})

describe('STATUS says no', () => {
  it.each<[string, () => void]>([
    ['is a file', () => writeFileSync(host.stateDir, '')],
    [
      'may be written by everybody',
      () => {
        mkdirSync(host.stateDir)
        chmodSync(host.stateDir, 0o777)
      },
    ],
  ])('with 50 where the state directory %s, and ADD fails then', (_, make) => {
    rmSync(host.stateDir, { recursive: true })
    make()
    expectError(host.cni('STATUS', conf), 50, host.stateDir)
    expectError(host.cni('ADD', conf, { netns: host.pod('a') }), 5, host.stateDir)
    expect(host.run('ip', ['link', 'show', 'cni0']).code).not.toBe(0)
  })

  it.each([
    ['nft', { ipMasq: true }],
    ['nft', { podcidr: undefined, mode: 'chained', firewall: { ingressPolicy: 'isolated' } }],
    ['tc', { bandwidth: { ingressRate: 1_000_000, ingressBurst: 100_000 } }],
    ['tc', { capabilities: { bandwidth: true } }],
    ['nft', { ipMasq: false, capabilities: { portMappings: true } }],
    ['sysctl', { tuning: { sysctl: { 'net.core.somaxconn': '100' } } }],
    ['sysctl', { podcidr: 'fd00:240::/64', enabledad: true }],
    ['nsenter', { mode: 'loopback', podcidr: undefined }],
  ])('with 50 where %s is not installed and the configuration needs it', (tool, more) => {
    expectSilent(host.cni('STATUS', netConf(more)))
    const hide = 'for f in $(which -a "$1"); do mount --bind /dev/null "$f"; done; exec "$0"'
    const env = environment('STATUS', { env: { TRESTLE_STATE_DIR: host.stateDir } })
    const asked = ['--mount', '--propagation', 'private', 'sh', '-c', hide, trestle, tool]
    const { stdout } = execaSync('unshare', asked, { env, input: JSON.stringify(netConf(more)), reject: false })
    expect(JSON.parse(stdout)).toMatchObject({ code: 50, msg: `not ready: ${tool} not found [not-ready-tool]` })
  })

  it('with 7 to a configuration that ADD would refuse', () => {
    expectError(host.cni('STATUS', netConf({ podcidr: 'x' })), 7, 'podcidr')
    expectError(host.cni('STATUS', netConf({ bridge: 'a b' })), 7, 'bridge')
  })
})
