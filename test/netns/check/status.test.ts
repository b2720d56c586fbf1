// SPDX-License-Identifier: Apache-2.0
// STATUS: no for what would make the next ADD fail, yes for all that ADD sets up by itself.

import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectUntouched } from '../../support/allowance.ts'
import { atRest, startCall } from '../../support/faults/started.ts'
import { environment, type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { networkStateAt, stateEnv } from '../../support/state-layout.ts'
import { statusOnNode } from '../../support/status-on-node.ts'
import { attach, ipamConf, netConf } from '../../support/traffic/pods.ts'

const conf = netConf()

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** An interface with this address, and a carrier. */
const lan = (cidr: string) =>
  `ip link add eth9 type veth peer name eth9-peer; ip addr add dev eth9 ${cidr}; ` +
  'ip link set eth9 up; ip link set eth9-peer up'

/** What the network `net` shares, in lines of a shell. */
const { shared } = networkStateAt('$STATE', 'net')

/** Runs lines of a shell on the node, where STATE is its state directory. */
function change(lines: string): void {
  const { code, stderr } = host.run('sh', ['-ec', lines.replaceAll('$STATE', host.stateDir)])
  expect(code, stderr).toBe(0)
}

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
    expectError(host.cni('STATUS', ipamConf(small)), 50, 'all 2 are held')
    expectError(host.cni('ADD', ipamConf(small), { id: 'e', netns: host.pod('e') }), 101, '2 of 2 used')
  })

  it.each([
    ['another interface has the range since the network was set up', lan('10.240.0.9/24')],
    ["the same, and the network's file is lost: pods live with it", `${lan('10.240.0.9/24')}; rm ${shared}`],
  ])('where %s', (_, line) => {
    attach(host, conf, { id: 'a' })
    change(line)
    expectSilent(statusOnNode(host, conf))
    attach(host, conf, { id: 'b' })
  })

  it.each<[string, string, object, number]>([
    ['the range 192.0.2.0/24 overlaps 192.0.2.2/24 of eth9', lan('192.0.2.2/24'), { podcidr: '192.0.2.0/24' }, 110],
    ['the range 10.240.0.0/25 overlaps 10.240.0.1/24 of network net on cni0', '', { podcidr: '10.240.0.0/25' }, 110],
    ['network net is set up with the range 10.240.0.0/24, with 1 pod', '', { name: 'net', bridge: 'cni0' }, 110],
    ['"eth8" already exists but is not a bridge', 'ip link add eth8 type veth peer name eth9', { bridge: 'eth8' }, 108],
  ])('where the next ADD says what is in its way: %s', (message, line, more, code) => {
    attach(host, conf, { id: 'a' })
    change(line)
    const other = netConf({ name: 'other', bridge: 'br-two', podcidr: '10.241.0.0/24', ...more })
    expectSilent(statusOnNode(host, other))
    expectError(host.cni('ADD', other, { id: 'b', netns: host.pod('b') }), code, message)
  })

  it('where the range is another and no pod is left: the next ADD changes the gateway', () => {
    attach(host, conf, { id: 'a' })
    host.cni('DEL', conf, { id: 'a' })
    const moved = netConf({ podcidr: '10.98.0.0/24' })
    expectSilent(statusOnNode(host, moved))
    attach(host, moved, { id: 'b' })
    const shown = host.run('ip', ['-4', 'addr', 'show', 'dev', 'cni0']).stdout
    expect([...shown.matchAll(/inet (\S+)/g)].map(([, address]) => address)).toEqual(['10.98.0.1/24'])
  })

  it('where ranges come with ADD only', () => {
    expectSilent(host.cni('STATUS', ipamConf({ type: 'host-local' })))
  })
})

describe('STATUS looks again', () => {
  const one = ipamConf({ type: 'host-local', subnet: '10.9.0.0/30' })
  const cases: readonly [string, object, () => void, () => void][] = [
    ['the pool was full', one, () => void attach(host, one, { id: 'a' }), () => void host.cni('DEL', one, { id: 'a' })],
    [
      'the state directory was another one',
      conf,
      () => {
        attach(host, conf)
        chmodSync(host.stateDir, 0o777)
      },
      () => chmodSync(host.stateDir, 0o755),
    ],
  ]

  it.each(cases)('where %s, a second later, and says yes where that is over', async (_, asked, spoil, mend) => {
    spoil()
    const { child, ended } = startCall(host, asked, { CNI_COMMAND: 'STATUS' })
    await atRest(child)
    mend()
    expect(await ended).toMatchObject({ code: 0, stdout: '' })
  })

  it('once: then it says no', () => {
    attach(host, one, { id: 'a' })
    const begun = performance.now()
    expectError(host.cni('STATUS', one), 50, 'all 1 are held')
    expect(performance.now() - begun).toBeGreaterThan(1000)
  })

  it('not where it is told to end: it says no at once', async () => {
    attach(host, one, { id: 'a' })
    const { child, ended } = startCall(host, one, { CNI_COMMAND: 'STATUS' })
    await atRest(child)
    const begun = performance.now()
    child.kill('SIGTERM')
    const { code, stdout } = await ended
    expect(performance.now() - begun).toBeLessThan(500)
    expect({ code, status: JSON.parse(stdout).code }).toEqual({ code: 1, status: 50 })
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
    ['nft', { mode: 'ptp', ipMasq: false }],
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
    const env = environment('STATUS', { env: stateEnv(host) })
    const asked = ['--mount', '--propagation', 'private', 'sh', '-c', hide, trestle, tool]
    const { stdout } = execaSync('unshare', asked, { env, input: JSON.stringify(netConf(more)), reject: false })
    expect(JSON.parse(stdout)).toMatchObject({ code: 50, msg: `not ready: ${tool} not found [not-ready-tool]` })
  })

  it('with 7 to a configuration that ADD would refuse', () => {
    expectError(host.cni('STATUS', netConf({ podcidr: 'x' })), 7, 'podcidr')
    expectError(host.cni('STATUS', netConf({ bridge: 'a b' })), 7, 'bridge')
  })
})
