// SPDX-License-Identifier: Apache-2.0
// `trestle uninstall`: everything that trestle made goes, and nothing that others made; never under a live pod.

import { existsSync, rmSync, statSync } from 'node:fs'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { missingCnitool, openRuntime } from '../../support/cnitool.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { expectSilent } from '../../support/outcome.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { attach, later } from '../../support/traffic/pods.ts'

const everything = {
  cniVersion: '1.1.0',
  name: 'whole',
  type: 'trestle',
  podcidr: ['10.77.0.0/24', 'fd00:77::/64'],
  macspoofchk: true,
  firewall: { ingressPolicy: 'same-bridge' },
  runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80 }], bandwidth: { ingressRate: 1e7 } },
}
const second = { ...everything, name: 'second', bridge: 'br-second', podcidr: '10.78.0.0/24', runtimeConfig: {} }
const foreign = [
  'iptables -P FORWARD DROP',
  'iptables -A FORWARD -s 10.66.0.0/16 -j ACCEPT -m comment --comment foreign',
  'nft add table inet fw',
  'nft add chain inet fw forwarded { type filter hook forward priority 10 ; policy drop ; }',
  'nft add rule inet fw forwarded ip saddr 10.66.0.0/16 accept comment foreign',
  'ip link add br-own type bridge',
]

const missing = missingCnitool(['bridge', 'host-local'])
if (missing !== undefined) console.log(missing)

describe('trestle uninstall', () => {
  let host: Host
  beforeEach(() => {
    host = openHost()
  })
  afterEach(() => host.close())

  const uninstall = (...words: readonly string[]) => {
    const env = stateEnv(host)
    return execaSync('nsenter', [`--net=${host.path}`, '--', trestle, 'uninstall', ...words], { env, reject: false })
  }
  it('closes a link of others to 127.0.0.1 again, after the last host port there', () => {
    const line = 'ip link add cni0 type bridge; ip addr add 10.77.0.1/24 dev cni0'
    expect(host.run('sh', ['-c', line]).code).toBe(0)
    const conf = { ...everything, podcidr: '10.77.0.0/24', firewall: undefined }
    const pod = attach(host, conf)
    expectSilent(later(host, 'DEL', { conf, pod }))
    const localnet = () => host.run('cat', ['/proc/sys/net/ipv4/conf/cni0/route_localnet']).stdout
    expect(localnet()).toBe('1\n')
    expect(uninstall('--apply').stdout).toContain('removed   route_localnet of cni0')
    expect(localnet()).toBe('0\n')
  })

  it('leaves links, routes and all foreign rules as they were before the first pod', () => {
    for (const line of foreign) expect(host.run('sh', ['-c', line.replaceAll(/[{};]/g, '\\$&')]).code, line).toBe(0)
    const before = snapshot(host)
    const pod = attach(host, everything, { id: 'a' })
    const dead = attach(host, second, { id: 'b' })
    expect(host.run('iptables', ['-S', 'FORWARD']).stdout).toContain('trestle accept 0x1000')
    expectSilent(later(host, 'DEL', { conf: everything, pod }))
    host.removePod(dead.netns)
    const told = uninstall()
    expect(told.exitCode).toBe(1)
    expect(told.stdout).toContain('remove    link cni0')
    expect(told.stdout).toContain('remove    attachment eth0 of container b (network second)')
    const applied = uninstall('--apply')
    expect(applied.stdout).toMatch(/0 attached, 0 stay$/)
    expect(applied.exitCode, applied.stdout + applied.stderr).toBe(0)
    const { state: _, sysctls: __, ...after } = snapshot(host)
    const { state: ___, sysctls: ____, ...wanted } = before
    expect(after).toEqual(wanted)
    expect(existsSync(host.stateDir)).toBe(false)
    expect(uninstall().stdout).toBe('0 to remove, 0 attached, 0 stay')
  })

  it('removes nothing while a pod is attached', () => {
    const pod = attach(host, everything, { id: 'a' })
    const before = snapshot(host)
    const refused = uninstall('--apply')
    expect(refused.exitCode).toBe(1)
    expect(refused.stdout).toMatch(/attached {2}eth0 of container a: remove the pod first/)
    expect(snapshot(host)).toEqual(before)
    expectSilent(later(host, 'CHECK', { conf: everything, pod }))
  })

  it('removes nothing while a pod is attached whose record is lost', () => {
    const pod = attach(host, everything, { id: 'a' })
    rmSync(host.stateDir, { recursive: true })
    const { state: _, ...before } = snapshot(host)
    const refused = uninstall('--apply')
    expect(refused.exitCode, refused.stdout).toBe(1)
    expect(refused.stdout).toMatch(
      /attached {2}(?:eth0 of container a|link veth\w+ .*without a record): remove the pod/,
    )
    expect(refused.stdout).toMatch(/, \d+ attached, 0 stay: nothing is removed while a pod is attached$/)
    const { state: __, ...after } = snapshot(host)
    expect(after).toEqual(before)

    expectSilent(later(host, 'DEL', { conf: everything, pod }))
    expect(uninstall('--apply').exitCode).toBe(0)
    expect(host.run('ip', ['link', 'show', 'cni0']).code).not.toBe(0)
    expect(uninstall().stdout).toBe('0 to remove, 0 attached, 0 stay')
  })

  it.skipIf(missing !== undefined)(
    'removes nothing while a pod behind another plugin has host ports and its record is lost',
    () => {
      const runtime = openRuntime(host, 'behind')
      try {
        const ipam = { type: 'host-local', subnet: '10.79.0.0/24' }
        const first = { type: 'bridge', bridge: 'br-behind', isGateway: true, ipam }
        const onTop = { type: 'trestle', capabilities: { portMappings: true } }
        runtime.write({ cniVersion: '1.0.0', name: 'behind', plugins: [first, onTop] })
        const ports = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] }
        const netns = host.pod('one')
        expect(runtime.tool('add', netns, ports)).toMatchObject({ code: 0 })
        rmSync(host.stateDir, { recursive: true })
        const { stdout } = uninstall('--apply')
        expect(stdout).toMatch(/attached {2}rules .*10\.79\.0\.2.*, without a record/)
        expect(runtime.tool('del', netns, ports)).toMatchObject({ code: 0 })
        expect(uninstall('--apply').exitCode).toBe(0)
      } finally {
        runtime.close()
      }
    },
  )

  it("leaves a bridge that was there before trestle's network", () => {
    host.run('ip', ['link', 'add', 'br-own', 'type', 'bridge'])
    const conf = { ...second, bridge: 'br-own' }
    expectSilent(later(host, 'DEL', { conf, pod: attach(host, conf) }))
    const applied = uninstall('--apply')
    expect(applied.stdout).toContain('stays     bridge br-own: another program made it')
    expect(host.run('ip', ['link', 'show', 'br-own']).code).toBe(0)
    expect(statSync(host.stateDir, { throwIfNoEntry: false })).toBeUndefined()
  })
})
