// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept: nodes whose other firewalls drop what is forwarded. The pods' traffic passes, one constant accept
// is there, and its removal leaves the other rules as they were, byte for byte.

import { existsSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, filterBridged, targetsAt } from '../../support/ask.ts'
import { type Firewall, firewalls, foreignTable, policyDrop } from '../../support/foreign-firewalls.ts'
import { expectSilent, runLine } from '../../support/outcome.ts'
import { stateFiles } from '../../support/state-layout.ts'
import { bridgedPod, foreignBridge } from '../../support/traffic/bridged-pods.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'
import { outside, pings } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

const dual = { podcidr: ['10.240.0.0/24', 'fd00:240::/64'], removeWhenEmpty: true }
const portMappings = [{ hostPort: 8080, containerPort: 80 }]
const conf = netConf({ ...dual, firewall: {} })
const served = { ...conf, runtimeConfig: { portMappings } }

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
  filterBridged(host, true)
})
afterEach(() => host.close())

const run = (line: string): string => runLine(host, line).stdout
const listed = ({ list }: Firewall) => list.map(run).join('')
const ours = (firewall: Firewall) => listed(firewall).match(/trestle [^"]*/g) ?? []

/** What does not work of: pod to outside, outside to host port, pod to pod; over ping, TCP and UDP. */
async function broken(): Promise<readonly string[]> {
  const [a, b] = [attach(host, served, { id: 'a' }), attach(host, conf, { id: 'b' })]
  host.atClose(
    await answer(a.netns, 80),
    await answer(host.internet, 90, outside.far4),
    await answer(host.internet, 90, outside.far6),
  )
  const ofA = a.result.ips.map((ip) => ip.address.replace(/\/.*/, ''))
  const pinged = [...ofA, outside.far4, outside.far6].filter((address) => !pings(host, b.netns, address))
  const asked = [
    ...ask(host, b.netns, [...targetsAt(ofA, 80), ...targetsAt([outside.far4, outside.far6], 90)]),
    ...ask(
      host,
      host.internet,
      [outside.node4, outside.node6].map((address) => ({ protocol: 'tcp', address, port: 8080 })),
    ),
  ]
  const silent = asked.flatMap((said, at) => (said === '' ? [`socket ${at}`] : []))
  for (const pod of [a, b]) expectSilent(later(host, 'DEL', { conf, pod }))
  return [...pinged, ...silent]
}

describe.each(firewalls.map((firewall) => [firewall.what, firewall] as const))('behind %s', (_, firewall) => {
  beforeEach(() => {
    for (const line of firewall.make) run(line)
  })

  it('traffic passes, and the firewall is as it was when the network is gone', async () => {
    const before = listed(firewall)
    expect(await broken()).toEqual([])
    expect(listed(firewall)).toBe(before)
    expect(existsSync(stateFiles(host).accept)).toBe(false)
  })

  it('there is one accept in each chain, whatever the number of pods and networks, and again after it was flushed', () => {
    attach(host, conf, { id: 'a' })
    const first = ours(firewall)
    const { places } = JSON.parse(readFileSync(stateFiles(host).accept, 'utf8')) as { places: [] }
    expect(first).toEqual(places.map(() => 'trestle accept 0x1000'))
    attach(host, conf, { id: 'b' })
    attach(host, { ...conf, promiscMode: true }, { id: 'c' })
    attach(host, { ...conf, name: 'other', bridge: 'cni1', podcidr: '10.241.0.0/24' }, { id: 'd' })
    expect(ours(firewall)).toEqual(first)
    run('nft delete table inet trestle')
    for (const line of firewall.list.filter((each) => each.includes('tables'))) run(line.replace('-S', '-F'))
    for (const line of firewall.make.filter((each) => each.includes(' -A '))) run(line)
    attach(host, conf, { id: 'e' })
    expect(ours(firewall)).toEqual(first)
  })

  it('nothing is put with hostAccept off or without the key, and what was put goes when it is switched off', async () => {
    const before = listed(firewall)
    attach(host, { ...conf, firewall: { hostAccept: 'off' } }, { id: 'a' })
    attach(host, { ...conf, firewall: undefined }, { id: 'b' })
    expect(listed(firewall)).toBe(before)
    attach(host, conf, { id: 'c' })
    expect(ours(firewall)).not.toEqual([])
    attach(host, { ...conf, firewall: { hostAccept: 'off' } }, { id: 'd' })
    expect(listed(firewall)).toBe(before)
  })

  it('without it, traffic does not pass', () => {
    const pod = attach(host, { ...conf, firewall: { hostAccept: 'off' } })
    expect(host.inPod(pod.netns, 'ping', ['-c1', '-W1', outside.far4]).code).not.toBe(0)
  })
})

describe('where nothing drops', () => {
  it.each([
    ['there is no other table', []],
    ['FORWARD has rules and policy ACCEPT', [...policyDrop('iptables-nft').slice(0, 1)]],
    ['DOCKER-USER is left over and nobody goes there', ['iptables-nft -N DOCKER-USER']],
  ])('nothing is put, and no table is made: %s', (_, make) => {
    for (const line of make) run(line)
    const tables = () => [run('nft list ruleset'), host.run('cat', ['/proc/net/ip_tables_names']).stdout]
    const before = tables()
    const pod = attach(host, conf)
    expect(existsSync(stateFiles(host).accept)).toBe(false)
    expectSilent(later(host, 'DEL', { conf, pod }))
    run('nft delete table inet trestle')
    expect(tables()).toEqual(before)
  })
})

describe('a chained attachment with the key', () => {
  it('has the bridge of its pod accepted, whoever made it, until it is gone', () => {
    for (const line of foreignTable) run(line)
    const before = run('nft list table inet fw')
    foreignBridge(host, 'cni9', '10.249.0.1')
    const { call, prevResult } = bridgedPod(host, 'a', { bridge: 'cni9', address: '10.249.0.2' })
    const chained = netConf({ podcidr: undefined, ipMasq: true, removeWhenEmpty: true, firewall: {}, prevResult })
    const pod = attach(host, chained, call)
    expect(pings(host, pod.netns, outside.far4)).toBe(true)
    expect(run('nft list table inet fw').match(/trestle accept/g)).toHaveLength(1)
    expectSilent(later(host, 'CHECK', { conf: chained, pod }))
    expectSilent(later(host, 'DEL', { conf: chained, pod }))
    expect(run('nft list table inet fw')).toBe(before)
  })
})

describe('two networks on one bridge', () => {
  it('share the accept, and the last one takes it out', () => {
    for (const line of foreignTable) run(line)
    const before = run('nft list table inet fw')
    const second = { ...conf, name: 'second', podcidr: '10.241.0.0/24', forceAddress: false }
    const one = attach(host, conf, { id: 'one' })
    const two = attach(host, { ...second, isGateway: false, isDefaultGateway: false }, { id: 'two' })
    expect(run('nft list table inet fw').match(/trestle accept/g)).toHaveLength(1)
    expectSilent(later(host, 'DEL', { conf, pod: one }))
    expect(run('nft list table inet fw').match(/trestle accept/g)).toHaveLength(1)
    expectSilent(later(host, 'DEL', { conf: second, pod: two }))
    expect(run('nft list table inet fw')).toBe(before)
  })
})
