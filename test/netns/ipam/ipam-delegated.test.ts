// SPDX-License-Identifier: Apache-2.0
// ipam.type of another plugin: how it is called, and what becomes of its answers and its failures.

import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { answer, type InstalledIpam, installIpam, leased, refuse, type Script } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { recordName, stateOf } from '../../support/state-layout.ts'
import { addressesOf, attach, interfacesOf, ipamConf, later, netConf } from '../../support/traffic/pods.ts'
import { pings, pingsOnce } from '../../support/traffic/traffic.ts'

let host: Host
let before: ReturnType<typeof snapshot>
let ipam: InstalledIpam | undefined
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => {
  ipam?.remove()
  host.close()
})

const conf = ipamConf({ type: 'scripted' })

function install(script: Script): InstalledIpam {
  ipam = installIpam(script)
  return ipam
}

/** The DEL of the plugin has failed: the next one calls it again, and leaves nothing. */
function expectOwed(): void {
  expect(stateOf(host, 'net').names('pending')).toEqual([recordName('c1')])
  ipam?.remove()
  const well = install({})
  expectSilent(host.cni('DEL', conf, { path: well.path }))
  expect(well.calls()).toEqual(['DEL'])
  expectNothingLeft(host, before)
}

describe('a delegated IPAM plugin', () => {
  it('gives address, routes and dns, and is called again by CHECK, STATUS, GC and DEL', () => {
    const plugin = install({ ADD: answer() })
    const pod = attach(host, conf, { path: plugin.path })
    expect(pod.result).toMatchObject({
      ips: [{ address: '10.66.0.7/24', gateway: '10.66.0.1', interface: 2 }],
      routes: [{ dst: '10.9.0.0/16' }, { dst: '0.0.0.0/0', gw: '10.66.0.1' }],
      dns: { nameservers: ['10.66.0.53'] },
    })
    expect(addressesOf(host, pod.netns)).toEqual(['10.66.0.7/24'])
    expect(host.inPod(pod.netns, 'ping', ['-c1', '-w10', '10.66.0.1']).code).toBe(0)
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(host.cni('STATUS', conf, { path: plugin.path }))
    const id = { containerID: pod.id, ifname: 'eth0' }
    expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [id] }, { path: plugin.path }))
    // The list null, which tells nothing of live pods, is not handed on.
    expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': null }, { path: plugin.path }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(plugin.calls()).toEqual(['ADD', 'CHECK', 'STATUS', 'GC', 'DEL'])
    expectNothingLeft(host, before)
  })

  it('with a gateway in no subnet of the pod is refused, and its gateway is never on the bridge', () => {
    const strange = leased.replace('10.66.0.1', '10.99.0.1')
    const plugin = install({ ADD: `case $CNI_CONTAINERID in w) ${answer(strange)} ;; *) ${answer()} ;; esac` })
    expectError(
      host.cni('ADD', conf, { id: 'w', netns: host.pod('w'), path: plugin.path }),
      7,
      'ipam: gateway 10.99.0.1 is in no subnet of the pod (10.66.0.7/24)',
    )
    expect(addressesOf(host, host.path, 'cni0')).toEqual([])
    attach(host, conf, { path: plugin.path })
    expect(addressesOf(host, host.path, 'cni0')).toEqual(['10.66.0.1/24'])
  })

  it('that answers one address twice gives it once', () => {
    const answered = JSON.parse(leased)
    const [ip] = answered.ips
    const plugin = install({ ADD: answer(JSON.stringify({ ...answered, ips: [ip, ip] })) })
    const pod = attach(host, conf, { path: plugin.path })
    expect(pod.result.ips).toEqual([{ ...ip, interface: 2 }])
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, before)
  })

  it.each(['bridge', 'ptp'])(
    'leaves the masquerade of live pods alone while it is asked and when it refuses: %s',
    (mode) => {
      const masq = ipamConf({ type: 'scripted' }, { ipMasq: true, mode })
      const ADD = `nft list set inet trestle masq4 >during; case $CNI_CONTAINERID in w) ${refuse(11, 'no')} ;; *) ${answer()} ;; esac`
      const plugin = install({ ADD })
      attach(host, masq, { path: plugin.path })
      const { rules } = snapshot(host)
      expectError(host.cni('ADD', masq, { id: 'w', netns: host.pod('w'), path: plugin.path }), 11, 'no')
      expect(readFileSync(`${plugin.path}/during`, 'utf8')).toContain('10.66.0.0/24')
      expect(snapshot(host).rules).toEqual(rules)
    },
  )

  it.each(['10.66.0.7', 'fd66::7'])('a pod that another one knew by another MAC is reached at once: %s', (address) => {
    const is6 = address.includes(':')
    const [range, gateway] = is6 ? ['fd66::', 'fd66::1'] : ['10.66.0.', '10.66.0.1']
    const ip = (at: string) =>
      answer(`{"cniVersion":"1.1.0","ips":[{"address":"${at}/${is6 ? 64 : 24}","gateway":"${gateway}"}]}`)
    const plugin = install({ ADD: `case $CNI_CONTAINERID in peer) ${ip(`${range}5`)} ;; *) ${ip(address)} ;; esac` })
    const peer = attach(host, conf, { id: 'peer', path: plugin.path })
    const first = attach(host, conf, { id: 'first', path: plugin.path })
    expect(pings(host, peer.netns, address)).toBe(true)
    expectSilent(host.cni('DEL', conf, first.call))
    const second = attach(host, conf, { id: 'second', path: plugin.path })
    expect(second.result.interfaces[2]?.mac).not.toBe(first.result.interfaces[2]?.mac)
    expect(pingsOnce(host, peer.netns, address)).toBe(true)
    for (const pod of [peer, second]) expectSilent(host.cni('DEL', conf, pod.call))
    expectNothingLeft(host, before)
  })

  it('sees the environment and the very text of the configuration', () => {
    const plugin = install({ ADD: answer() })
    const text = JSON.stringify(conf, null, 3).replace('{', '{ "odd key" : [ 1.50, "\\u00fc" ],')
    const call = { id: 'c9', netns: host.pod('p'), args: 'IgnoreUnknown=1;X=Y', path: `/none:${plugin.path}` }
    // libcni sets these three for a caller with a trace (github.com/containernetworking/cni/pull/1173).
    const trace = { TRACEPARENT: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, TRACESTATE: 'x=1', BAGGAGE: 'pod=p' }
    const env = { OTHER: 'kept', ...trace }
    expect(host.cni('ADD', text, { ...call, env }).code).toBe(0)
    const expected = {
      CNI_CONTAINERID: 'c9',
      CNI_NETNS: call.netns,
      CNI_IFNAME: 'eth0',
      CNI_ARGS: call.args,
      CNI_PATH: call.path,
      ...env,
    }
    expect(plugin.stdin('ADD')).toBe(text)
    expect(plugin.env('ADD')).toMatchObject({ ...expected, CNI_COMMAND: 'ADD' })
    expectSilent(host.cni('DEL', text, { ...call, env }))
    expect(plugin.stdin('DEL')).toBe(text)
    expect(plugin.env('DEL')).toMatchObject({ ...expected, CNI_COMMAND: 'DEL' })
  })

  it('is believed for the keys of a result only, whatever else is in it', () => {
    const deep = `${'['.repeat(30_000)}${']'.repeat(30_000)}`
    const more = `"src":{"a":1},"nexthop":${deep}`
    const text = leased.replace('"10.9.0.0/16"', `"10.9.0.0/16",${more}`).replace('"dns":{', `"dns":{${more},`)
    const plugin = install({ ADD: 'cat answer' })
    writeFileSync(`${plugin.path}/answer`, text)
    const pod = attach(host, conf, { path: plugin.path })
    expect(pod.result.routes).toEqual([{ dst: '10.9.0.0/16' }, { dst: '0.0.0.0/0', gw: '10.66.0.1' }])
    expect(pod.result.dns).toEqual({ nameservers: ['10.66.0.53'] })
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, before)
  })

  it('that prints the configuration does not bring its secrets into the error', () => {
    const plugin = install({ ADD: 'cat stdin.ADD; exit 1' })
    const secret = { ...conf, args: { cni: { token: 'tops3cret' } }, 'api-key': 'tops3cret' }
    const answered = host.cni('ADD', secret, { netns: host.pod('p'), path: plugin.path })
    expectError(answered, 105, 'ended with status 1')
    expect(answered.stdout).not.toContain('tops3cret')
    expectNothingLeft(host, before)
  })

  it('finds the interface made and up, as dhcp needs it', () => {
    const plugin = install({ ADD: `nsenter --net="$CNI_NETNS" ip -o link show eth0 > seen; ${answer()}` })
    attach(host, conf, { path: plugin.path })
    expect(host.run('cat', [`${plugin.path}/seen`]).stdout).toMatch(/eth0@.*[<,]UP[,>]/)
  })

  it.each<[string, string, number, string]>([
    ['a CNI error', refuse(142, 'the pool is on fire'), 142, 'the pool is on fire'],
    ['code 11', refuse(11, 'try later'), 11, 'try later'],
    ['a crash', 'kill -SEGV $$', 105, 'scripted'],
    ['a failure without words', 'exit 3', 105, 'status 3'],
    ['garbage with status 1', 'echo garbage; exit 1', 105, 'without an error object'],
    ['garbage with status 0', 'echo garbage', 105, 'no result'],
    ['nothing with status 0', ':', 105, 'no result'],
    ['a result without addresses', answer('{"cniVersion":"1.1.0"}'), 105, 'no address'],
    [
      'a hostile address',
      answer('{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.1/24 dev lo\\\\nlink del lo"}]}'),
      105,
      'scripted',
    ],
  ])('that answers ADD with %s fails it, gets a DEL, and nothing is left', (_, line, code, text) => {
    const plugin = install({ ADD: line })
    const netns = host.pod('p')
    expectError(host.cni('ADD', conf, { netns, path: plugin.path }), code, text)
    expect(plugin.calls()).toEqual(['ADD', 'DEL'])
    expect(interfacesOf(host, netns)).toEqual([])
    expectNothingLeft(host, before)
  })

  it('that fails the DEL after a failed ADD does not hide the first error', () => {
    const plugin = install({ ADD: refuse(142, 'first'), DEL: refuse(143, 'second') })
    const added = host.cni('ADD', conf, { netns: host.pod('p'), path: plugin.path })
    expectError(added, 142, 'first')
    expect(added.stderr).toContain('second')
    expectOwed()
  })

  it('that is slow is waited for', () => {
    const plugin = install({ ADD: `sleep 1; ${answer()}` })
    expect(attach(host, conf, { path: plugin.path }).address).toBe('10.66.0.7')
  })

  it('that is missing is named once, with the places looked at', () => {
    const added = host.cni('ADD', conf, { netns: host.pod('p'), path: '/none:/nowhere' })
    expectError(added, 105, '/nowhere/scripted')
    expect(added.stderr).toBe('')
    expectError(host.cni('STATUS', conf, { path: '/none' }), 50, '/none/scripted')
    expectNothingLeft(host, before)
  })

  it.each(['CHECK', 'STATUS', 'GC'] as const)('that fails %s fails ours with its error', (verb) => {
    const plugin = install({ ADD: answer(), [verb]: refuse(144, 'not well') })
    const pod = attach(host, conf, { path: plugin.path })
    const sent = { ...conf, prevResult: pod.result }
    expectError(host.cni(verb, sent, { ...pod.call }), 144, 'not well')
    expectSilent(later(host, 'DEL', { conf, pod }))
  })

  it('that fails DEL fails ours, after all our own work is done', () => {
    const plugin = install({ ADD: answer(), DEL: refuse(144, 'not well') })
    const pod = attach(host, conf, { path: plugin.path })
    expectError(later(host, 'DEL', { conf, pod }), 144, 'not well')
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expect(stateOf(host, 'net').names('addresses')).toEqual(['10.66.0.7'])
    expectOwed()
  })

  it.each<[string, object]>([
    ['podcidr', netConf()],
    ['another type', ipamConf({ type: 'trestle', subnet: '10.66.0.0/24' })],
    ['another range', ipamConf({ type: 'scripted', range: 'b' })],
  ])('gets the DEL with the ipam of its ADD, when the configuration has by now %s', (_, edited) => {
    const plugin = install({ ADD: answer(), DEL: `grep -q '"range":"a"' stdin.DEL || { ${refuse(7, 'whose?')}; }` })
    const given = ipamConf({ type: 'scripted', range: 'a' })
    const pod = attach(host, given, { path: plugin.path })
    expectSilent(later(host, 'DEL', { conf: edited, pod }))
    expect(JSON.parse(plugin.stdin('DEL'))).toMatchObject({ name: 'net', ipam: { type: 'scripted', range: 'a' } })
    expectNothingLeft(host, before)
  })

  it('gets no DEL of a pod that the pool gave its address', () => {
    const plugin = install({ DEL: refuse(144, 'not mine') })
    const pod = attach(host, netConf(), { path: plugin.path })
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(plugin.calls()).toEqual([])
    expectNothingLeft(host, before)
  })

  it('has its stderr passed on, and not in the result', () => {
    const plugin = install({ ADD: `echo a note >&2; ${answer()}` })
    const added = host.cni('ADD', conf, { netns: host.pod('p'), path: plugin.path })
    expect(added).toMatchObject({ code: 0, stderr: 'a note\n' })
  })

  it('gives a routed pod its address, with routes to it, and 0 in a route as not set', () => {
    const ips = '{"address":"10.66.0.7/24","gateway":"10.66.0.1"},{"address":"fd00:66::7/64","gateway":"fd00:66::1"}'
    const routes = '{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16","table":0,"priority":0,"mtu":0}'
    const plugin = install({ ADD: answer(`{"cniVersion":"1.1.0","ips":[${ips}],"routes":[${routes}]}`) })
    const routed = { ...conf, mode: 'ptp' }
    const pod = attach(host, routed, { path: plugin.path })
    for (const gateway of ['10.66.0.1', 'fd00:66::1']) expect(pings(host, pod.netns, gateway)).toBe(true)
    for (const address of ['10.66.0.7', 'fd00:66::7'])
      expect(host.run('ping', ['-c1', '-w10', address]).code, address).toBe(0)
    expectSilent(later(host, 'CHECK', { conf: routed, pod }))
    expectSilent(later(host, 'DEL', { conf: routed, pod }))
    expectNothingLeft(host, before)
  })

  it('may answer in an older version than ours', () => {
    const old = '{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.66.0.8/24","gateway":"10.66.0.1"}],"dns":{}}'
    const plugin = install({ ADD: answer(old) })
    expect(attach(host, conf, { path: plugin.path }).result.ips).toEqual([
      { address: '10.66.0.8/24', gateway: '10.66.0.1', interface: 2 },
    ])
  })
})
