// SPDX-License-Identifier: Apache-2.0
// sbr of a second interface: rules and tables of its own, both families, gone with DEL.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, type Snapshot, snapshot } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const first = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
const secondConf = (more: object = {}) =>
  netConf({ name: 'second', bridge: 'br-second', podcidr: ['10.50.0.0/24', 'fd00:50::/64'], sbr: {}, ...more })

let host: Host
let before: Snapshot
let pod: Pod
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
  pod = attach(host, first)
})
afterEach(() => host.close())

function inPod(args: string): string {
  return host.inPod(pod.netns, 'ip', args.split(' ')).stdout
}

function rules(): readonly string[] {
  const lines = ['rule show', '-6 rule show'].flatMap((args) => inPod(args).split('\n'))
  return lines.filter((line) => /from (\d|\w+:)/.test(line)).map((line) => line.replace(/^\d+:\s*/, '').trim())
}

function attachSecond(conf: object, ifName = 'eth1'): Pod {
  return attach(host, conf, { netns: pod.netns, ifName })
}

describe('sbr', () => {
  it('routes what comes from each address by a table of its own', () => {
    const conf = secondConf()
    const second = attachSecond(conf)
    expect(rules()).toEqual(['from 10.50.0.2 lookup 100', 'from fd00:50::2 lookup 101'])
    expect(inPod('route get 192.0.2.9 from 10.50.0.2')).toContain('via 10.50.0.1 dev eth1')
    expect(inPod('route get 2001:db8::9 from fd00:50::2')).toContain('via fd00:50::1 dev eth1')
    expect(inPod('route get 192.0.2.9')).toContain('dev eth0')
    expect(inPod('route show table main')).not.toContain('eth1')
    expect(inPod('-6 route show table main')).not.toContain('fd00:50::')
    for (const address of ['10.50.0.1', 'fd00:50::1']) {
      const from = address.includes(':') ? 'fd00:50::2' : '10.50.0.2'
      expect(host.inPod(pod.netns, 'ping', ['-c1', '-w10', '-I', from, address]).code, address).toBe(0)
    }
    expectSilent(later(host, 'CHECK', { conf, pod: second }))
    expectSilent(later(host, 'DEL', { conf, pod: second }))
    expect(rules()).toEqual([])
    expectSilent(later(host, 'DEL', { conf, pod: second, call: { netns: '' } }))
    expectSilent(later(host, 'DEL', { conf: first, pod }))
    expectNothingLeft(host, before)
  })

  it('takes the first tables that have neither rule nor route', () => {
    host.inPod(pod.netns, 'ip', ['rule', 'add', 'from', '198.51.100.1', 'table', '100'])
    host.inPod(pod.netns, 'ip', ['-6', 'rule', 'add', 'from', '2001:db8::1', 'table', '101'])
    host.inPod(pod.netns, 'ip', ['route', 'add', '203.0.113.0/24', 'dev', 'eth0', 'table', '103'])
    attachSecond(secondConf())
    const other = secondConf({ name: 'third', bridge: 'br-third', podcidr: '10.60.0.0/24' })
    attachSecond(other, 'eth2')
    const ours = rules().filter((rule) => /from (10\.50|10\.60|fd00)/.test(rule))
    expect([...ours].sort()).toEqual([
      'from 10.50.0.2 lookup 102',
      'from 10.60.0.2 lookup 105',
      'from fd00:50::2 lookup 104',
    ])
  })

  it('with table makes rules only; gateways win over the network; addSourceHints keeps the subnet', () => {
    attachSecond(secondConf({ podcidr: '10.50.0.0/24', sbr: { table: 777 }, isDefaultGateway: false }))
    expect(rules()).toEqual(['from 10.50.0.2 lookup 777'])
    expect(inPod('route show table main')).toContain('10.50.0.0/24 dev eth1')
    const hinted = { name: 'third', bridge: 'br-third', podcidr: '10.60.0.0/24' }
    attachSecond(secondConf({ ...hinted, sbr: { gateways: ['10.60.0.77'], addSourceHints: true } }), 'eth2')
    expect(inPod('route get 192.0.2.9 from 10.60.0.2')).toContain('via 10.60.0.77 dev eth2')
    expect(inPod('route show table main')).toMatch(/10\.60\.0\.0\/24 dev eth2 scope link src 10\.60\.0\.2/)
  })

  it('CHECK names a rule or route that is gone', () => {
    const conf = secondConf()
    const second = attachSecond(conf)
    host.inPod(pod.netns, 'ip', ['-6', 'rule', 'del', 'from', 'fd00:50::2'])
    expectError(later(host, 'CHECK', { conf, pod: second }), 107, 'rule from fd00:50::2/128 table 101 is missing')
    host.inPod(pod.netns, 'ip', ['-6', 'rule', 'add', 'from', 'fd00:50::2', 'table', '101'])
    host.inPod(pod.netns, 'ip', ['route', 'del', 'default', 'table', '100'])
    expectError(later(host, 'CHECK', { conf, pod: second }), 107, 'route to 0.0.0.0/0 via 10.50.0.1 dev eth1')
  })

  it('DEL of a pod whose namespace is gone is silent', () => {
    const conf = secondConf()
    const second = attachSecond(conf)
    host.removePod(pod.netns)
    expectSilent(later(host, 'DEL', { conf, pod: second }))
    expectSilent(later(host, 'DEL', { conf: first, pod }))
    expectNothingLeft(host, before)
  })
})

describe('sbr chained', () => {
  const chained = { cniVersion: '1.1.0', name: 'second', type: 'trestle', sbr: {} }
  const addresses = ['10.50.0.2/24', 'fd00:50::2/64']
  const gateways = ['10.50.0.1', 'fd00:50::1']
  const interfaces = [{ name: 'far1' }, { name: 'eth1', sandbox: '' }]

  /** A second interface of another plugin, with addresses unless `isBare`; its call and its result. */
  function foreignSecond(isBare = false) {
    const label = pod.netns.slice('/run/netns/'.length)
    runLine(host, `ip link add far1 up type veth peer name eth1 netns ${label}`)
    for (const [at, address] of isBare ? [] : addresses.entries()) {
      runLine(host, `ip addr add ${gateways[at]}/${address.replace(/.*\//, '')} dev far1 nodad`)
      expect(host.inPod(pod.netns, 'ip', ['addr', 'add', address, 'dev', 'eth1', 'nodad']).code).toBe(0)
    }
    inPod('link set eth1 up')
    const ips = isBare ? [] : addresses.map((address, at) => ({ address, gateway: gateways[at], interface: 1 }))
    const sandboxed = interfaces.map((each) => ({ ...each, ...('sandbox' in each ? { sandbox: pod.netns } : {}) }))
    return {
      call: { ...pod.call, ifName: 'eth1' },
      prevResult: { cniVersion: '1.1.0', interfaces: sandboxed, ips },
    }
  }

  it('moves the routes of an interface, and DEL puts them back', () => {
    const { call, prevResult } = foreignSecond()
    const there = snapshot(host)
    // A route that is put back is not the kernel's own any more.
    const sorted = (args: string) =>
      inPod(args)
        .replace(/ proto kernel| +(?= )/g, '')
        .split('\n')
        .sort()
    const was = [sorted('route show'), sorted('-6 route show')]
    const conf = { ...chained, prevResult }
    expect(host.cni('ADD', conf, call).json).toEqual(prevResult)
    expect(rules()).toEqual(['from 10.50.0.2 lookup 100', 'from fd00:50::2 lookup 101'])
    expect(inPod('route get 192.0.2.9 from 10.50.0.2')).toContain('via 10.50.0.1 dev eth1')
    expect(inPod('route show table main')).not.toContain('eth1')
    expectSilent(host.cni('CHECK', conf, call))
    expectSilent(host.cni('DEL', conf, call))
    expect(rules()).toEqual([])
    expect([sorted('route show'), sorted('-6 route show')]).toEqual(was)
    expectNothingLeft(host, there)
  })

  it.each([
    ['an index beyond the interfaces', true, [0, 1]],
    ['an interface without its sandbox', false, [0, 0]],
  ] as const)('has a rule for every address, also by %s', (_, hasSandbox, indexes) => {
    const { call, prevResult } = foreignSecond()
    const only = [{ name: 'eth1', ...(hasSandbox ? { sandbox: pod.netns } : {}) }]
    const ips = prevResult.ips.map((ip, at) => ({ ...ip, interface: indexes[at] }))
    const added = host.cni('ADD', { ...chained, prevResult: { ...prevResult, interfaces: only, ips } }, call)
    expect(added.code, added.stdout).toBe(0)
    expect(rules()).toEqual(['from 10.50.0.2 lookup 100', 'from fd00:50::2 lookup 101'])
  })

  it('without any address is refused, and changes nothing', () => {
    const { call, prevResult } = foreignSecond(true)
    expectError(host.cni('ADD', { ...chained, prevResult }, call), 7, 'no IP addresses supplied on interface eth1')
    expect(rules()).toEqual([])
  })
})
