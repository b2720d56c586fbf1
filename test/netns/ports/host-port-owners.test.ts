// SPDX-License-Identifier: Apache-2.0
// A host port has one owner on the node, whatever its network: a second one is refused with the first
// one's name, a dead one's port is taken over, DEL frees it; and what happens when records are lost.

import { readdirSync, rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask } from '../../support/ask.ts'
import { type Host, openHost } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { portName, stateFiles, stateOf } from '../../support/state-layout.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'
import { addUplink, outside } from '../../support/traffic/traffic.ts'

const k8s = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0'
const other = { name: 'other', bridge: 'br-other', podcidr: '10.250.0.0/24' }

function withPort(more: object = {}, port: object = {}) {
  return netConf({ runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, ...port }] }, ...more })
}

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** The elements of a map as nft lists them, without their comments. */
const elements = (map: string) =>
  host.run('nft', ['list', 'map', 'inet', 'trestle', map]).stdout.replace(/ comment "[^"]*"/g, '')

describe('a second owner of a host port', () => {
  it.each([
    ['in the same network', {}, {}, {}],
    ['in another network', other, {}, {}],
    ['with one address of the node, where the first has all', other, {}, { hostIP: '192.0.2.1' }],
    ['with all addresses, where the first has one', other, { hostIP: '192.0.2.1' }, {}],
    ['with the same address', other, { hostIP: '192.0.2.1' }, { hostIP: '192.0.2.1' }],
  ])('%s is refused with the name of the first, and nothing changes', (_, network, firstPort, secondPort) => {
    attach(host, withPort({}, firstPort), { id: 'first', args: k8s })
    const before = [elements('ports4'), elements('anyports4')]
    const refused = host.cni('ADD', withPort(network, secondPort), { id: 'second', netns: host.pod('second') })
    expectError(refused, 104, /host port 8080\/tcp.*taken[\s\S]*shop\/web-0/)
    expect([elements('ports4'), elements('anyports4')]).toEqual(before)
  })

  it.each([
    ['of another protocol', {}, { protocol: 'udp' }],
    ['on another address', { hostIP: '192.0.2.1' }, { hostIP: '192.0.2.2' }],
    ['of the other family', { hostIP: '0.0.0.0' }, { hostIP: '::' }],
  ])('%s is none', (_, firstPort, secondPort) => {
    const dual = { podcidr: ['10.240.0.0/24', 'fd00:240::/64'] }
    attach(host, withPort(dual, firstPort), { id: 'first' })
    attach(host, withPort(dual, secondPort), { id: 'second' })
  })

  it('that is another interface of the container goes without the port, and the DEL of the first ends it', () => {
    const udp = { hostPort: 5353, containerPort: 53, protocol: 'udp' }
    const second = netConf({
      ...other,
      runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, hostIP: '192.0.2.1' }, udp] },
    })
    const first = attach(host, withPort(), { id: 'first' })
    const call = { id: 'first', netns: first.netns, ifName: 'net1' }
    const added = host.cni('ADD', second, call)
    expect(added.code, added.stdout).toBe(0)
    expect(added.stderr).toContain('serves tcp:8080:4:192.0.2.1, not net1\n')
    expect(elements('anyports4')).toContain(`tcp . 8080 : ${first.address} . 80`)
    expect(elements('anyports4')).toContain('udp . 5353 : 10.250.0.2 . 53')
    expect(elements('ports4')).not.toContain('8080')
    for (const [conf, { json }, sent] of [
      [withPort(), { json: first.result }, first.call],
      [second, added, call],
    ] as const)
      expectSilent(host.cni('CHECK', { ...conf, prevResult: json }, sent))
    expectSilent(later(host, 'DEL', { conf: withPort(), pod: first }))
    expect(elements('anyports4')).not.toContain('8080')
    expectSilent(host.cni('DEL', second, call))
    expect(readdirSync(stateFiles(host).ports)).toEqual([])
  })

  it('gets the port when DEL has freed it, also when the first has died without DEL', () => {
    const first = attach(host, withPort(), { id: 'first' })
    expectSilent(later(host, 'DEL', { conf: withPort(), pod: first }))
    const second = attach(host, withPort(other), { id: 'second' })
    host.removePod(second.netns)
    const third = attach(host, withPort(), { id: 'third' })
    expect(elements('anyports4')).toContain(`tcp . 8080 : ${third.address} . 80`)
    expect(host.run('ip', ['link', 'show', second.hostLink]).code).not.toBe(0)
  })
})

describe('a pod with 1000 host ports', () => {
  it.each([
    ['address', '192.0.2.1'],
    ['port', undefined],
  ])('of which one %s is taken is refused with the port, and keeps none of the others', (_, hostIP) => {
    attach(host, withPort({}, { hostPort: 20_500 }), { id: 'first', args: k8s })
    const portMappings = Array.from({ length: 1000 }, (_, at) => ({ hostPort: 20_000 + at, containerPort: 80, hostIP }))
    const many = netConf({ ...other, runtimeConfig: { portMappings } })
    const taken = /host port 20500\/tcp.*taken[\s\S]*shop\/web-0/
    expectError(host.cni('ADD', many, { id: 'second', netns: host.pod('second') }), 104, taken)
    expect(readdirSync(stateFiles(host).ports)).toEqual([portName('tcp', 20500)])
    const free = portMappings.filter(({ hostPort }) => hostPort !== 20_500)
    const pod = attach(host, netConf({ ...other, runtimeConfig: { portMappings: free } }), { id: 'third' })
    expect(readdirSync(stateFiles(host).ports)).toHaveLength(1000)
    expectSilent(later(host, 'DEL', { conf: many, pod }))
    expect(readdirSync(stateFiles(host).ports)).toEqual([portName('tcp', 20500)])
  })
})

describe('a pod with 2001 host ports', () => {
  it('has them all, and they go with it', () => {
    const portMappings = Array.from({ length: 2001 }, (_, at) => ({ hostPort: 20_000 + at, containerPort: 1 + at }))
    const conf = netConf({ runtimeConfig: { portMappings } })
    const pod = attach(host, conf)
    expect(elements('anyports4')).toContain(`tcp . 22000 : ${pod.address} . 2001`)
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(readdirSync(stateFiles(host).ports)).toEqual([])
  })
})

describe('a record that was lost', () => {
  const conf = withPort({
    podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
    portmap: { masqAll: true },
  })

  it.each([
    ['on a bridge', {}],
    ['on a routed link', { mode: 'ptp' }],
  ])('%s: DEL takes the elements of its host ports out, and nobody else', (_, mode) => {
    const neighbourPort = { runtimeConfig: { portMappings: [{ hostPort: 9090, containerPort: 80 }] } }
    const neighbour = attach(host, { ...conf, ...mode, ...neighbourPort }, { id: 'n' })
    const before = host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout
    const pod = attach(host, { ...conf, ...mode })
    rmSync(stateOf(host, 'net').finished('c1'))
    expectSilent(later(host, 'DEL', { conf: { ...conf, ...mode }, pod }))
    expect(host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout).toBe(before)
    expect(before).toContain(`${neighbour.address} . 80`)
    attach(host, { ...withPort(other), ...mode }, { id: 'next' })
  })

  it('with the whole state, and the pod with it: the next owner of the port gets it, the old element goes', async () => {
    const internet = addUplink(host)
    const gone = attach(host, conf)
    rmSync(host.stateDir, { recursive: true })
    host.removePod(gone.netns)
    const next = attach(host, withPort(other), { id: 'next' })
    expect(elements('anyports4')).toContain(`elements = { tcp . 8080 : ${next.address} . 80 }`)
    const stop = await answer(next.netns, 80)
    const said = ask(host, internet, [{ protocol: 'tcp', address: outside.node4, port: 8080 }])
    stop()
    expect(said).toEqual(['192.0.2.2'])
  })
})
