// SPDX-License-Identifier: Apache-2.0
// VLANs: on a kernel with bridge VLAN filtering pods of one VLAN reach each other and their gateway and
// no others; on one without, ADD says what is missing and leaves nothing. Which of the two ran is printed.

import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { filterBridged } from '../../support/ask.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, ipamConf, later, onHostJson, type Pod } from '../../support/traffic/pods.ts'
import { pings, pingsOnce } from '../../support/traffic/traffic.ts'

let host: Host
let hasVlans: boolean
beforeEach(() => {
  host = openHost()
  hasVlans = host.run('ip', ['link', 'add', 'probe', 'type', 'bridge', 'vlan_filtering', '1']).code === 0
  if (hasVlans) host.run('ip', ['link', 'del', 'probe'])
})
afterEach(() => host.close())

const onVlan = (vlan: number, more: object = {}) =>
  ipamConf(
    { type: 'host-local', ranges: [[{ subnet: `10.${vlan}.0.0/16`, gateway: `10.${vlan}.0.1` }]] },
    { name: `vlan${vlan}`, vlan, isDefaultGateway: false, ...more },
  )
const trunked = { ...onVlan(30), name: 'trunked', vlan: 0, vlanTrunk: [{ id: 10 }, { minID: 20, maxID: 22 }] }

/** Refused with the reason and undone: the whole of what a kernel without VLANs can do. */
function expectRefused(conf: object): void {
  const before = snapshot(host)
  expectError(host.cni('ADD', conf, { netns: host.pod('a') }), 100, 'CONFIG_BRIDGE_VLAN_FILTERING')
  expectNothingLeft(host, before)
}

function expectSeparate(): void {
  const confs = [onVlan(10), onVlan(10), onVlan(20)] as const
  const [a, b, c] = confs.map((conf, at) => attach(host, conf, { id: `p${at}` })) as [Pod, Pod, Pod]
  expect(pings(host, a.netns, b.address)).toBe(true)
  host.inPod(c.netns, 'ip', ['addr', 'add', '10.10.9.9/16', 'dev', 'eth0'])
  expect(pingsOnce(host, c.netns, a.address)).toBe(false)
  for (const [at, pod] of [a, b, c].entries()) expectSilent(later(host, 'CHECK', { conf: confs[at] as object, pod }))
  host.run('bridge', ['vlan', 'del', 'dev', a.hostLink, 'vid', '10'])
  expectError(later(host, 'CHECK', { conf: confs[0], pod: a }), 107, `VLAN 10 is missing on ${a.hostLink}`)
}

function expectGateway(): void {
  const conf = onVlan(10, { isDefaultGateway: true })
  const pod = attach(host, conf)
  expect(pings(host, pod.netns, '10.10.0.1')).toBe(true)
  expect(host.run('ip', ['addr', 'show', 'dev', 'cni0.10']).stdout).toContain('10.10.0.1/16')
  const [link] = onHostJson(host, ['link', 'show', 'dev', 'cni0.10'])
  const { interfaces = [], ips } = pod.result
  expect(interfaces.map(({ name }) => name)).toEqual(['cni0', pod.hostLink, 'eth0', 'cni0.10'])
  expect(interfaces[3]).toEqual({ name: 'cni0.10', mac: link?.address, mtu: link?.mtu })
  expect(ips).toMatchObject([{ interface: 2 }])
  expectSilent(later(host, 'CHECK', { conf, pod }))
}

/** The bridge has the node's own address, as one with the uplink as a port. */
function expectNodesAddressKept(): void {
  host.run('ip', ['link', 'add', 'name', 'cni0', 'up', 'type', 'bridge', 'vlan_filtering', '1'])
  host.run('ip', ['addr', 'add', '192.168.1.5/24', 'dev', 'cni0'])
  const pod = attach(host, onVlan(10, { isDefaultGateway: true }))
  expect(pings(host, pod.netns, '10.10.0.1')).toBe(true)
  expect(host.run('ip', ['addr', 'show', 'dev', 'cni0']).stdout).toContain('192.168.1.5/24')
}

const gatewayLinks = () => host.run('ip', ['-br', 'addr', 'show', 'to', '10.10.0.1']).stdout.match(/cni0\S*(?=@)/g)

/** The same range on another VLAN: the gateway would be on two links. */
function expectMove(): void {
  const [conf, edited] = [10, 20].map((vlan) => onVlan(10, { vlan, isDefaultGateway: true })) as [object, object]
  const old = attach(host, conf, { id: 'old' })
  expectError(host.cni('ADD', edited, { netns: host.pod('b') }), 110, /VLAN 10 \(cni0\.10\).*with 1 pod/)
  expect(gatewayLinks()).toEqual(['cni0.10'])
  expectSilent(later(host, 'DEL', { conf: edited, pod: old }))
  const pod = attach(host, edited, { id: 'new' })
  expect(gatewayLinks()).toEqual(['cni0.20'])
  expect(pings(host, pod.netns, '10.10.0.1')).toBe(true)
}

function expectTrunk(): void {
  const pod = attach(host, trunked)
  const shown = host.run('bridge', ['-j', 'vlan', 'show', 'dev', pod.hostLink]).stdout
  for (const vlan of ['"vlan":1', '"vlan":10', '"vlan":20']) expect(shown).toContain(vlan)
  expectSilent(later(host, 'CHECK', { conf: trunked, pod }))
}

/** Each network's link goes with its last pod, the bridge with the last network. */
function expectGone(): void {
  const confs = [10, 20].map((vlan) => onVlan(vlan, { isDefaultGateway: true, removeWhenEmpty: true }))
  const pods = confs.map((conf, at) => attach(host, conf, { id: `p${at}` }))
  const left = confs.map((conf, at) => {
    expectSilent(later(host, 'DEL', { conf, pod: pods[at] as Pod }))
    const names = host
      .run('ip', ['-br', 'link'])
      .stdout.split('\n')
      .map((line) => line.replace(/[@ ].*/, ''))
    return names.filter((name) => name.includes('cni0')).sort()
  })
  expect(left).toEqual([['cni0', 'cni0.20', 'vlan20.cni0'], []])
}

/** Packets of the pods are routed by cni0.10, and what is bridged is filtered as the bridge's. */
function expectPolicy(isFiltered: boolean): void {
  execaSync('modprobe', ['br_netfilter'])
  filterBridged(host, isFiltered)
  const withPolicy = (vlan: number, ingressPolicy: string, more: object = {}) =>
    onVlan(vlan, { isDefaultGateway: true, firewall: { ingressPolicy, hostAccept: 'off' }, ...more })
  const [strict, weak] = [withPolicy(10, 'isolated'), withPolicy(20, 'same-bridge', { bridge: 'br-far' })]
  const [a, b] = [attach(host, strict, { id: 'a' }), attach(host, strict, { id: 'b' })]
  const [c, d] = [attach(host, weak, { id: 'c' }), attach(host, weak, { id: 'd' })]
  expect(pings(host, a.netns, '10.10.0.1')).toBe(true)
  expect(pingsOnce(host, a.netns, b.address)).toBe(false)
  expect(pingsOnce(host, a.netns, c.address)).toBe(false)
  expect(pings(host, c.netns, d.address)).toBe(true)
  expect(pings(host, c.netns, '10.20.0.1')).toBe(true)
  expect(pingsOnce(host, c.netns, a.address)).toBe(false)
}

function tell(what: string): void {
  process.stdout.write(`${what}: on a kernel ${hasVlans ? 'with' : 'without'} bridge VLAN filtering\n`)
}

describe('VLANs', () => {
  it.each<[string, object, () => void]>([
    ['an access VLAN', onVlan(10), expectSeparate],
    ['the gateway on its VLAN', onVlan(10, { isDefaultGateway: true }), expectGateway],
    ["the node's address on the bridge", onVlan(10, { isDefaultGateway: true }), expectNodesAddressKept],
    ['another VLAN for a range', onVlan(10, { isDefaultGateway: true }), expectMove],
    ['networks that go with their last pods', onVlan(10, { removeWhenEmpty: true }), expectGone],
    ['ingressPolicy', onVlan(10, { isDefaultGateway: true }), () => expectPolicy(false)],
    ['ingressPolicy, bridged packets filtered', onVlan(10, { isDefaultGateway: true }), () => expectPolicy(true)],
    ['a trunk', trunked, expectTrunk],
  ])('%s', (what, conf, works) => {
    tell(what)
    if (hasVlans) works()
    else expectRefused(conf)
  })

  it('on a bridge that was made without VLAN filtering are refused before anything is made', () => {
    host.run('ip', ['link', 'add', 'name', 'cni0', 'up', 'type', 'bridge'])
    const before = snapshot(host)
    const added = host.cni('ADD', onVlan(10, { isDefaultGateway: true }), { netns: host.pod('a') })
    expectError(added, 108, 'made without VLAN filtering')
    expectNothingLeft(host, before)
  })
})
