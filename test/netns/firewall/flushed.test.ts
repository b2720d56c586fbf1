// SPDX-License-Identifier: Apache-2.0
// What others do to a node: a bridge removed, rules flushed by hand, with pods running. The next ADD
// brings everything back for every pod, not only its own.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openFaults } from '../../support/faults/faults.ts'
import { type Host, openHost } from '../../support/host.ts'

const conf = { cniVersion: '1.1.0', name: 'five', type: 'trestle', podcidr: '10.93.0.0/24' }
const outside = '198.51.100.1'
const running = 5

const damages: readonly (readonly [string, readonly (readonly string[])[]])[] = [
  ['the bridge is removed', [['ip', 'link', 'del', 'cni0']]],
  [
    'the bridge is down and bare',
    [
      ['ip', 'link', 'set', 'cni0', 'down'],
      ['ip', 'addr', 'flush', 'dev', 'cni0'],
    ],
  ],
  [
    'the bridge is made anew by somebody else',
    [
      ['ip', 'link', 'del', 'cni0'],
      ['ip', 'link', 'add', 'cni0', 'type', 'bridge'],
    ],
  ],
  ['the table is dormant', [['nft', 'add', 'table', 'inet', 'trestle', '{ flags dormant; }']]],
  [
    'the table is made anew, and dormant',
    [
      ['nft', 'delete', 'table', 'inet', 'trestle'],
      ['nft', 'add', 'table', 'inet', 'trestle', '{ flags dormant; }'],
    ],
  ],
  [
    'the table has a set of another type',
    [
      ['nft', 'delete', 'table', 'inet', 'trestle'],
      ['nft', 'add', 'table', 'inet', 'trestle'],
      ['nft', 'add', 'set', 'inet', 'trestle', 'masq4', '{ type ipv6_addr; }'],
    ],
  ],
  ['the table is flushed', [['nft', 'flush', 'table', 'inet', 'trestle']]],
  ['the table is deleted', [['nft', 'delete', 'table', 'inet', 'trestle']]],
  ['the ruleset is flushed', [['nft', 'flush', 'ruleset']]],
  [
    'bridge and ruleset are gone',
    [
      ['ip', 'link', 'del', 'cni0'],
      ['nft', 'flush', 'ruleset'],
    ],
  ],
]

describe('the next ADD', () => {
  let host: Host
  let pods: string[]
  beforeEach(() => {
    host = openHost()
    pods = Array.from({ length: running }, (_, at) => host.pod(`p${at}`))
    addOutside(host)
    for (const [at, netns] of pods.entries()) expect(host.cni('ADD', conf, { id: `p${at}`, netns }).code).toBe(0)
  })
  afterEach(() => host.close())

  it.each(damages)('brings six pods back when %s (podman#348: a flush kills the rules)', (_, commands) => {
    for (const [file = '', ...args] of commands) expect(host.run(file, args).code).toBe(0)
    const netns = host.pod('sixth')
    const added = host.cni('ADD', conf, { id: 'sixth', netns })
    expect(added.code, added.stdout).toBe(0)
    expect(silentOf(host, [...pods, netns])).toEqual([])
  })

  it('lets 127.0.0.1 reach the host ports of live pods by a bridge that it makes again', () => {
    const portMappings = [{ hostPort: 8080, containerPort: 80 }]
    const call = { id: 'port', netns: host.pod('port') }
    expect(host.cni('ADD', { ...conf, runtimeConfig: { portMappings } }, call).code).toBe(0)
    const localnet = () => host.run('cat', ['/proc/sys/net/ipv4/conf/cni0/route_localnet']).stdout.trim()
    expect(localnet()).toBe('1')
    expect(host.run('ip', ['link', 'del', 'cni0']).code).toBe(0)
    expect(host.cni('ADD', conf, { id: 'sixth', netns: host.pod('sixth') }).code).toBe(0)
    expect(localnet()).toBe('1')
  })

  it('fills the sets of a network with hostAccept when somebody has emptied them', () => {
    const podcidr = ['10.94.0.0/24', 'fd00:94::/64']
    const firewalled = { ...conf, name: 'accepted', bridge: 'br-acc', podcidr, firewall: {} }
    expect(host.cni('ADD', firewalled, { id: 'f0', netns: host.pod('f0') }).code).toBe(0)
    emptySets(host)
    const call = { id: 'f1', netns: host.pod('f1') }
    const added = host.cni('ADD', firewalled, call)
    expect(added.code, added.stdout).toBe(0)
    const checked = host.cni('CHECK', { ...firewalled, prevResult: added.json }, call)
    expect(checked.stdout).toBe('')
  })

  it('looks once for chains of others that drop, however many networks there are', () => {
    for (let at = 0; at < running; at++) {
      const more = { name: `more${at}`, bridge: `br-more${at}`, podcidr: `10.${100 + at}.0.0/24`, firewall: {} }
      expect(host.cni('ADD', { ...conf, ...more }, { id: `m${at}`, netns: host.pod(`m${at}`) }).code).toBe(0)
    }
    host.run('nft', ['flush', 'ruleset'])
    const tools = openFaults()
    try {
      const sixth = { id: 'sixth', netns: host.pod('sixth'), env: { PATH: tools.path } }
      expect(host.cni('ADD', conf, sixth).code).toBe(0)
      expect(tools.seen().filter(({ args }) => args === '-j list chains')).toHaveLength(1)
    } finally {
      tools.close()
    }
  })
})

/** Takes the elements out of every set and map of trestle's table, and leaves the rules. */
function emptySets(host: Host): void {
  const { stdout } = host.run('nft', ['list', 'table', 'inet', 'trestle'])
  const sets = [...stdout.matchAll(/^\t(set|map) (\w+) /gm)]
  expect(sets.length).toBeGreaterThan(20)
  for (const [, kind = '', name = ''] of sets) {
    expect(host.run('nft', ['flush', kind, 'inet', 'trestle', name]).code).toBe(0)
  }
}

/** A router beyond the node that has no route back to the pods: it answers masqueraded packets only. */
function addOutside(host: Host): void {
  const router = host.pod('outside')
  const name = router.slice('/run/netns/'.length)
  host.run('ip', ['link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'down0', 'netns', name])
  host.run('ip', ['addr', 'add', '198.51.100.2/24', 'dev', 'up0'])
  host.run('ip', ['link', 'set', 'up0', 'up'])
  host.inPod(router, 'ip', ['addr', 'add', `${outside}/24`, 'dev', 'down0'])
  host.inPod(router, 'ip', ['link', 'set', 'down0', 'up'])
}

/** What each pod does not reach: its neighbours, the gateway, the outside. */
function silentOf(host: Host, pods: readonly string[]): readonly string[] {
  const everyone = pods.map((_, at) => `10.93.0.${at + 2}`)
  return pods.flatMap((netns, at) =>
    [...everyone.filter((_, other) => other !== at), '10.93.0.1', outside]
      .filter((address) => host.inPod(netns, 'ping', ['-c1', '-w10', address]).code !== 0)
      .map((address) => `pod ${at} does not reach ${address}`),
  )
}
