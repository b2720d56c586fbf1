// SPDX-License-Identifier: Apache-2.0
// The configuration is edited while pods live: another range, another bridge, another gateway. Pods of before
// keep what they have, CHECK and restore know it, and uninstall takes both bridges.

import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { addressesOf, attach, later, netConf } from '../../support/traffic/pods.ts'
import { addUplink, outside, pings, pingsOnce } from '../../support/traffic/traffic.ts'

const runtimeConfig = { portMappings: [{ hostPort: 8080, containerPort: 80 }] }
const firewall = { ingressPolicy: 'same-bridge' }
const before = netConf({ podcidr: '10.1.0.0/24', firewall, runtimeConfig })
const after = netConf({ podcidr: '10.2.0.0/24', bridge: 'br7', firewall })

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

const command = (...words: readonly string[]) => {
  const env = stateEnv(host)
  return execaSync('nsenter', [`--net=${host.path}`, '--', trestle, ...words], { env, reject: false })
}
const forward = () => host.run('iptables', ['-S', 'FORWARD']).stdout

it('another range and another bridge: pods of both reach the outside, also after a flush and without the old bridge', () => {
  addUplink(host)
  expect(host.run('iptables', ['-P', 'FORWARD', 'DROP']).code).toBe(0)
  const [old, young] = [attach(host, before, { id: 'old' }), attach(host, after, { id: 'young' })]
  const areFine = (when: string) => {
    for (const pod of [old, young]) {
      expect(pings(host, pod.netns, outside.far4), `${pod.id} ${when}`).toBe(true)
      expectSilent(later(host, 'CHECK', { conf: pod === old ? before : after, pod }))
    }
  }
  areFine('after the change')
  expect(command('restore', '--dry-run').stdout).toBe('0 missing, 0 lost')
  for (const line of ['nft flush ruleset', 'iptables -P FORWARD DROP', 'ip link del cni0']) runLine(host, line)
  expectError(later(host, 'CHECK', { conf: before, pod: old }), 107, 'cni0 is missing')
  expect(command('restore').exitCode).toBe(0)
  areFine('after restore')
  const third = attach(host, after, { id: 'third' })
  areFine('after another ADD')
  for (const pod of [old, young, third]) expectSilent(later(host, 'DEL', { conf: after, pod }))
  const { stdout, exitCode } = command('uninstall', '--apply')
  expect(exitCode, stdout).toBe(0)
  expect(stdout).toContain('link br7')
  expect(stdout).toContain('link cni0')
  expect(forward()).toBe('-P FORWARD DROP\n')
})

describe('a network whose pods live gets a mode or a bridge where ipMasq is not read', () => {
  const macvlan = { ...netConf({ mode: 'macvlan', master: 'up0' }), podcidr: '10.2.0.0/24' }
  // The elements of the old pod are in nobody's way: a range around its own, or that range where the bridge has pods.
  const next = { podcidr: '10.1.0.0/16', bridge: 'br8' }
  it.each<[string, string, object, Readonly<Record<string, unknown>>]>([
    ['bridge', 'macvlan', macvlan, next],
    [
      'bridge',
      'macvlan, the same range by allowOverlap',
      { ...macvlan, podcidr: '10.1.0.0/24', allowOverlap: true },
      next,
    ],
    ['bridge', 'layer 2 on another bridge', { ...netConf({ bridge: 'br7' }), podcidr: undefined }, next],
    ['bridge', 'layer 2 on the same bridge', { ...netConf({}), podcidr: undefined }, { podcidr: '10.1.0.0/24' }],
    ['ptp', 'macvlan', macvlan, next],
  ])(
    'from %s to %s: they reach the outside, also after a flush, and CHECK knows their rules',
    (mode, _, after, last) => {
      addUplink(host)
      const first = netConf({ mode, podcidr: '10.1.0.0/24' })
      const old = attach(host, first, { id: 'old' })
      attach(host, after, { id: 'young' })
      const isFine = (when: string) => {
        expect(pings(host, old.netns, outside.far4), when).toBe(true)
        expectSilent(later(host, 'CHECK', { conf: first, pod: old }))
      }
      isFine('after the change')
      runLine(host, 'nft flush ruleset')
      expectError(later(host, 'CHECK', { conf: first, pod: old }), 107, 'trestle')
      expect(command('restore').exitCode).toBe(0)
      isFine('after restore')
      expectSilent(later(host, 'DEL', { conf: first, pod: old }))
      attach(host, netConf({ mode, ...last }), { id: 'third' })
      expect(command('restore', '--dry-run').stdout).toBe('0 missing, 0 lost')
    },
  )
})

it('two networks have left a bridge that they shared: restore gives each pod its gateway back, on the bridge and with it', () => {
  const [a, b] = [netConf({ name: 'a', podcidr: '10.1.0.0/24' }), netConf({ name: 'b', podcidr: '10.2.0.0/24' })]
  const [one, two] = [attach(host, a, { id: 'one' }), attach(host, b, { id: 'two' })]
  const loses = (line: string) => {
    runLine(host, line)
    expectError(later(host, 'CHECK', { conf: a, pod: one }), 107, line.includes('addr') ? '10.1.0.1/24' : 'cni0')
    expect(command('restore').stdout).toContain(' 0 lost')
    for (const pod of [one, two]) expect(pings(host, pod.netns, `${pod.result.ips[0]?.gateway}`), pod.id).toBe(true)
  }
  attach(host, { ...a, podcidr: '10.3.0.0/24', bridge: 'br1' }, { id: 'a' })
  for (const line of ['ip addr del 10.1.0.1/24 dev cni0', 'ip link del cni0']) loses(line)
  attach(host, { ...b, podcidr: '10.4.0.0/24', bridge: 'br2' }, { id: 'b' })
  loses('ip link del cni0')
  expect(command('restore', '--dry-run').stdout).toBe('0 missing, 0 lost')
})

it('an isolated network has left a bridge that an open one has: the pods that are there stay isolated', () => {
  const isolated = (name: string, podcidr: string, bridge: string) =>
    netConf({ name, podcidr, bridge, firewall: { ingressPolicy: 'isolated' } })
  const pod = attach(host, isolated('a', '10.1.0.0/24', 'cni0'), { id: 'one' })
  attach(host, netConf({ name: 'b', podcidr: '10.2.0.0/24' }), { id: 'two' })
  const stranger = attach(host, isolated('z', '10.9.0.0/24', 'br9'), { id: 'stranger' })
  expect(pingsOnce(host, stranger.netns, pod.address)).toBe(false)
  attach(host, isolated('a', '10.3.0.0/24', 'br1'), { id: 'three' })
  expect(pingsOnce(host, stranger.netns, pod.address)).toBe(false)
  runLine(host, 'nft flush ruleset')
  expect(command('restore').exitCode).toBe(0)
  expect(pingsOnce(host, stranger.netns, pod.address)).toBe(false)
})

it('a bridge of two networks is made again by the ADD of one, with the gateways of both', () => {
  const [a, b] = [netConf({ name: 'a', podcidr: '10.1.0.0/24' }), netConf({ name: 'b', podcidr: '10.2.0.0/24' })]
  const [one] = [attach(host, a, { id: 'one' }), attach(host, b, { id: 'two' })]
  const reaches = () => {
    runLine(host, 'ip link del cni0')
    attach(host, b, { id: `after${again++}` })
    expect(pings(host, one.netns, '10.1.0.1')).toBe(true)
    expectSilent(later(host, 'CHECK', { conf: a, pod: one }))
  }
  let again = 0
  reaches()
  attach(host, { ...a, podcidr: '10.3.0.0/24', bridge: 'br1' }, { id: 'a' })
  reaches()
})

it("a network that shares its bridge with pods of before another one moved is edited: their gateway is in nobody's way", () => {
  const [a, b] = [netConf({ name: 'a', podcidr: '10.1.0.0/24' }), netConf({ name: 'b', podcidr: '10.2.0.0/24' })]
  const [one] = [attach(host, a, { id: 'one' }), attach(host, b, { id: 'two' })]
  attach(host, { ...a, podcidr: '10.3.0.0/24', bridge: 'br1' }, { id: 'a' })
  for (const more of [{ ipMasq: false }, { hairpinMode: false, forceAddress: true }]) {
    attach(host, { ...b, ...more }, { id: JSON.stringify(more).replaceAll(/\W/g, '') })
    expect(pings(host, one.netns, '10.1.0.1')).toBe(true)
  }
})

it('another IPv6 range on the same bridge: restore puts the gateway back that pods of before have', () => {
  const dual = (ipv6: string, more = {}) => netConf({ podcidr: ['10.1.0.0/24', ipv6], ...more })
  const pods = ['fd00:1::/64', 'fd00:2::/64'].map((range, at) => attach(host, dual(range), { id: `pod${at}` }))
  const flushed = () => {
    for (const line of ['ip link set cni0 down', 'ip link set cni0 up']) runLine(host, line)
    expect(command('restore').exitCode).toBe(0)
    for (const [at, pod] of pods.entries()) expect(pings(host, pod.netns, `fd00:${at + 1}::1`), pod.id).toBe(true)
  }
  flushed()
  attach(host, netConf({ podcidr: ['10.3.0.0/24', 'fd00:3::/64'], bridge: 'br1' }), { id: 'moved' })
  flushed()
})

it('a gateway that forceAddress replaced: the refusal says it before, and CHECK of the pods that had it after', () => {
  const pod = attach(host, before)
  const replaced = netConf({ podcidr: '10.2.0.0/24', firewall })
  expectError(host.cni('ADD', replaced, { id: 'x', netns: host.pod('x') }), 108, /lose their gateway/)
  attach(host, { ...replaced, forceAddress: true }, { id: 'y' })
  expectError(later(host, 'CHECK', { conf: before, pod }), 107, '10.1.0.1/24 is missing on cni0')
})

it('families swapped and swapped again: the gateway that no pod has any more goes, one by hand stays and is refused', () => {
  const old = attach(host, before, { id: 'old' })
  const six = attach(host, netConf({ podcidr: 'fd00:1::/64', firewall }), { id: 'six' })
  const swapped = netConf({ podcidr: '10.2.0.0/24', firewall })
  expectError(
    host.cni('ADD', swapped, { id: 'x', netns: host.pod('x') }),
    108,
    /different from 10\.2\.0\.1\/24: 10\.1\.0\.1\/24/,
  )
  expectSilent(later(host, 'DEL', { conf: swapped, pod: old }))
  expectSilent(host.cni('STATUS', swapped))
  const young = attach(host, swapped, { id: 'young' })
  expect(addressesOf(host, host.path, 'cni0')).toEqual(['10.2.0.1/24', 'fd00:1::1/64'])
  expect([pings(host, young.netns, '10.2.0.1'), pings(host, six.netns, 'fd00:1::1')]).toEqual([true, true])
  runLine(host, 'ip addr add 10.3.0.1/24 dev cni0')
  expectSilent(later(host, 'DEL', { conf: swapped, pod: young }))
  const again = netConf({ podcidr: '10.4.0.0/24', firewall })
  expectError(
    host.cni('ADD', again, { id: 'y', netns: host.pod('y') }),
    108,
    /different from 10\.4\.0\.1\/24: 10\.3\.0\.1\/24/,
  )
  runLine(host, 'ip addr del 10.3.0.1/24 dev cni0')
  runLine(host, 'ip link add tap9 type veth peer name tap9-peer')
  runLine(host, 'ip link set tap9 master cni0')
  expectError(host.cni('ADD', again, { id: 'z', netns: host.pod('z') }), 108, /10\.2\.0\.1\/24/)
})

it('a range that has grown around its gateway: forceAddress changes the prefix length, and no pod loses anything', () => {
  addUplink(host)
  const pod = attach(host, before)
  const ipam = { type: 'trestle', subnet: '10.1.0.0/16', gateway: '10.1.0.1' }
  const grown = netConf({ podcidr: undefined, isDefaultGateway: true, ipMasq: true, firewall, ipam })
  expectError(host.cni('ADD', grown, { id: 'x', netns: host.pod('x') }), 108, /with which no pod loses anything$/)
  const young = attach(host, { ...grown, forceAddress: true }, { id: 'young' })
  expect(addressesOf(host, host.path, 'cni0')).toEqual(['10.1.0.1/16'])
  for (const each of [pod, young]) {
    expect(pings(host, each.netns, outside.far4), each.id).toBe(true)
    expectSilent(later(host, 'CHECK', { conf: before, pod: each }))
  }
})

it('a range that has shrunk around its gateway: the refusal says that pods outside of it are cut off, and CHECK does', () => {
  const inside = attach(host, netConf({ podcidr: '10.1.0.0/16' }), { id: 'inside' })
  const cut = attach(host, netConf({ podcidr: '10.1.0.0/16', runtimeConfig: { ips: ['10.1.5.5'] } }), { id: 'out' })
  const shrunk = netConf({ podcidr: '10.1.0.0/24' })
  expectError(
    host.cni('ADD', shrunk, { id: 'x', netns: host.pod('x') }),
    108,
    /with which pods outside of 10\.1\.0\.1\/24 are cut off$/,
  )
  attach(host, { ...shrunk, forceAddress: true }, { id: 'y' })
  expect(pings(host, inside.netns, '10.1.0.1')).toBe(true)
  expectSilent(later(host, 'CHECK', { conf: shrunk, pod: inside }))
  expectError(later(host, 'CHECK', { conf: shrunk, pod: cut }), 107, '10.1.0.1/16 is missing on cni0')
})

it('another name: the pool is a new one, and gives out no address that a live pod has on the bridge', () => {
  const [old, mapped] = [
    attach(host, { ...before, runtimeConfig: {} }, { id: 'old' }),
    attach(host, before, { id: 'mapped' }),
  ]
  const renamed = { ...before, runtimeConfig: {}, name: 'renamed' }
  const young = attach(host, renamed, { id: 'young' })
  // An entry under the old name that is still there, as beside a second runtime.
  const late = attach(host, { ...before, runtimeConfig: {} }, { id: 'late' })
  expect(new Set([old, mapped, young, late].map(({ address }) => address)).size).toBe(4)
  // As containerd sends it: with the configuration of now.
  expectSilent(later(host, 'DEL', { conf: renamed, pod: old }))
  host.removePod(old.netns)
  expect(command('gc', '--no-runtime').stdout).not.toContain('address')
  expectSilent(later(host, 'CHECK', { conf: before, pod: mapped }))
  expect(attach(host, renamed, { id: 'later' }).address).not.toBe(mapped.address)
})
