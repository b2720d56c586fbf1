// SPDX-License-Identifier: Apache-2.0
// A range with a gateway on the host that overlaps what another interface or network has: refused (110) when the network
// is set up, naming both.

import { rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateOf } from '../../support/state-layout.ts'
import { attach, ipamConf, later, netConf, onHostJson } from '../../support/traffic/pods.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** An interface of the node with these addresses. */
function plug(name: string, ...cidrs: readonly string[]): void {
  const noDad = (cidr: string) => (cidr.includes(':') ? ['nodad'] : [])
  const ip = (...words: readonly string[]) => {
    const { code, stderr } = host.run('ip', words)
    if (code !== 0) throw new Error(`ip ${words.join(' ')}: ${stderr}`)
  }
  ip('link', 'add', name, 'type', 'veth', 'peer', 'name', `${name}-peer`)
  for (const cidr of cidrs) ip('addr', 'add', cidr, 'dev', name, ...noDad(cidr))
  for (const dev of [name, `${name}-peer`]) ip('link', 'set', dev, 'up')
}

const lan = '192.0.2.0/24'
const lan6 = '2001:db8:5::/64'

describe('a range that overlaps', () => {
  it.each<[string, object, string]>([
    ['the range of the node', netConf({ podcidr: lan }), 'the range 192.0.2.0/24 overlaps 192.0.2.2/24 of eth9'],
    ['a part of it', netConf({ podcidr: '192.0.2.128/25' }), 'the range 192.0.2.128/25 overlaps 192.0.2.2/24 of eth9'],
    ['more than it', netConf({ podcidr: '192.0.0.0/16' }), 'the range 192.0.0.0/16 overlaps 192.0.2.2/24 of eth9'],
    [
      'its IPv6 range',
      netConf({ podcidr: ['10.1.0.0/24', lan6] }),
      `the range ${lan6} overlaps 2001:db8:5::2/64 of eth9`,
    ],
    ['routed pods', netConf({ mode: 'ptp', podcidr: lan }), 'the range 192.0.2.0/24 overlaps 192.0.2.2/24 of eth9'],
    [
      'a static address',
      ipamConf({ type: 'static', addresses: [{ address: '192.0.2.9/24', gateway: '192.0.2.5' }] }),
      'the range 192.0.2.0/24 overlaps 192.0.2.2/24 of eth9',
    ],
  ])('%s is refused before anything is made', (_, conf, message) => {
    plug('eth9', '192.0.2.2/24', '2001:db8:5::2/64')
    const netns = host.pod('a')
    const before = snapshot(host)
    const refused = host.cni('ADD', conf, { netns })
    expectError(refused, 110, message)
    expect(refused.json?.details).toContain('"allowOverlap": true')
    expectNothingLeft(host, before)
    expect(onHostJson(host, ['link', 'show', 'type', 'bridge'])).toEqual([])
    host.run('ip', ['link', 'del', 'eth9'])
    attach(host, conf, { netns })
  })

  it.each<[string, string, boolean]>([
    ['lo', '127.0.0.0/24', false],
    ['eth9', '192.0.2.0/24', true],
    ['up9', '198.51.100.0/24', false],
    ['six9', '2001:db8:6::/64', false],
  ])('with that of %s: its removal is offered only where it may be left over', (link, podcidr, isOffered) => {
    host.run('ip', ['link', 'set', 'lo', 'up'])
    plug('eth9', '192.0.2.2/24')
    plug('up9', '198.51.100.2/24')
    plug('six9', '2001:db8:6::2/64')
    host.run('ip', ['route', 'add', 'default', 'via', '198.51.100.1', 'table', '77'])
    host.run('ip', ['route', 'add', 'default', 'via', '2001:db8:6::1'])
    const refused = host.cni('ADD', netConf({ podcidr }), { netns: host.pod('a') })
    expectError(refused, 110, ` of ${link}`)
    expect(refused.json?.details?.includes(`remove ${link}`)).toBe(isOffered)
  })

  it('of a delegated plugin is refused, and its lease given back', () => {
    plug('eth9', '192.0.2.2/24')
    const ips = [{ address: '192.0.2.9/24', gateway: '192.0.2.1' }]
    const plugin = installIpam({ ADD: answer(JSON.stringify({ cniVersion: '1.1.0', ips })) })
    try {
      const call = { netns: host.pod('a'), path: plugin.path }
      expectError(host.cni('ADD', ipamConf({ type: 'scripted' }), call), 110, 'overlaps 192.0.2.2/24 of eth9')
      expect(plugin.calls()).toEqual(['ADD', 'DEL'])
    } finally {
      plugin.remove()
    }
  })

  it.each<[string, object]>([
    ['on another bridge', { bridge: 'br-two' }],
    ['on the same bridge', {}],
    ['in mode ptp', { mode: 'ptp' }],
  ])('another network of ours is refused by its name: %s', (_, more) => {
    attach(host, netConf({ name: 'first' }), { id: 'first' })
    for (const podcidr of ['10.240.0.0/24', '10.240.0.0/16']) {
      const refused = host.cni('ADD', netConf({ name: 'second', podcidr, ...more }), {
        id: 'x',
        netns: host.pod(`x${podcidr.slice(-2)}`),
      })
      expectError(refused, 110, `the range ${podcidr} overlaps 10.240.0.1/24 of network first on cni0`)
    }
  })

  it.each([
    ['without a gateway on the host', ipamConf({ type: 'host-local', subnet: lan }, { isDefaultGateway: false })],
    ['with allowOverlap', netConf({ podcidr: lan, allowOverlap: true })],
  ])('%s is taken', (_, conf) => {
    plug('eth9', '192.0.2.2/24')
    attach(host, conf)
  })

  it.each<[string, readonly string[], string, string]>([
    [
      'the prefix that a router advertises beside a DHCPv6 address',
      ['addr add 2001:db8:5::2/128 dev eth9 nodad', 'route add 2001:db8:5::/64 dev eth9 proto ra'],
      lan6,
      'overlaps 2001:db8:5::/64 of eth9',
    ],
    [
      'the router of a node with an address of full length',
      ['addr add 192.0.2.5/32 dev eth9', 'route add 192.0.2.1 dev eth9', 'route add default via 192.0.2.1'],
      lan,
      'overlaps 192.0.2.1 of eth9',
    ],
  ])('%s is refused', (_, lines, podcidr, message) => {
    plug('eth9')
    for (const line of lines) expect(host.run('ip', line.split(' ')), line).toMatchObject({ code: 0 })
    for (const mode of ['bridge', 'ptp']) {
      const refused = host.cni('ADD', netConf({ mode, podcidr }), { id: mode, netns: host.pod(mode) })
      expectError(refused, 110, message)
    }
    attach(host, netConf({ podcidr, allowOverlap: true }))
  })

  it('only with ways elsewhere is taken: of a VPN, of peers, of nobody', () => {
    plug('eth9', '198.51.100.2/24')
    for (const route of [
      '0.0.0.0/1 dev eth9',
      '192.0.2.128/25 via 198.51.100.9',
      '192.0.2.64/26 dev eth9 proto static',
      '192.0.2.9 dev eth9',
      'unreachable 192.0.2.0/25',
      'default via 198.51.100.1',
    ])
      expect(host.run('ip', ['route', 'add', ...route.split(' ')]), route).toMatchObject({ code: 0 })
    attach(host, netConf({ podcidr: lan }))
  })

  it('only with a default route is no overlap', () => {
    plug('eth9', '198.51.100.2/24')
    host.run('ip', ['route', 'add', 'default', 'via', '198.51.100.1'])
    attach(host, netConf({ podcidr: lan }))
  })

  it('is no reason to refuse a network with live pods, whose set-up was lost', () => {
    const pod = attach(host, netConf({ podcidr: lan }))
    plug('eth9', '192.0.2.2/24')
    rmSync(stateOf(host, 'net').shared)
    attach(host, netConf({ podcidr: lan }), { id: 'again' })
    expectSilent(later(host, 'CHECK', { conf: netConf({ podcidr: lan }), pod }))
  })
})

describe('the single address of another interface inside the range', () => {
  const small = netConf({ podcidr: ['10.240.0.0/29', 'fd00:240::/125'] })

  it('is given to no pod, then and later, and counts in STATUS', () => {
    // As flannel.1 and tunl0 have them.
    plug('tunl9', '10.240.0.3/32', 'fd00:240::3/128')
    const given = ['a', 'b', 'c', 'd'].map((id) => attach(host, small, { id }).result.ips.map(({ address }) => address))
    expect(given.map(([v4]) => v4)).toEqual(['10.240.0.2/29', '10.240.0.4/29', '10.240.0.5/29', '10.240.0.6/29'])
    expect(given.map(([, v6]) => v6)).toEqual([2, 4, 5, 6].map((n) => `fd00:240::${n}/125`))
    expectError(host.cni('STATUS', small), 50, 'no IP addresses available')
    const full = host.cni('ADD', small, { id: 'e', netns: host.pod('e') })
    expectError(full, 101, 'no IP addresses available')
  })

  it('of the node itself is excluded where the overlap is allowed', () => {
    plug('eth9', '192.0.2.2/24')
    const conf = netConf({ podcidr: lan, allowOverlap: true })
    expect([attach(host, conf, { id: 'a' }).address, attach(host, conf, { id: 'b' }).address]).toEqual([
      '192.0.2.3',
      '192.0.2.4',
    ])
  })
})
