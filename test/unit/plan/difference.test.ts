// SPDX-License-Identifier: Apache-2.0
// desired − observed: nothing when everything is there, the right sentence for each thing that is not.

import { describe, expect, it } from 'vitest'
import { emptyNamespace, type Observed, type ObservedLink } from '../../../src-before/model/observed.ts'
import { indexElements, type Op } from '../../../src-before/model/op.ts'
import { declarationsOf } from '../../../src-before/model/tables.ts'
import { difference, podDifference } from '../../../src-before/plan/order/difference.ts'

const veth: Op = {
  in: 'host',
  kind: 'veth.add',
  name: 'veth1',
  mac: '02:00:00:00:00:01',
  mtu: 1500,
  peer: 'eth0',
  peerMac: '02:00:00:00:00:02',
  master: 'cni0',
  why: 'w',
}
const ops: readonly Op[] = [
  { in: 'host', kind: 'forwarding.on', family: 4, why: 'w' },
  { in: 'host', kind: 'bridge.add', name: 'cni0', mac: '02:00:00:00:00:09', mtu: 1500, vlanFiltering: false, why: 'w' },
  { in: 'host', kind: 'addr.replace', dev: 'cni0', cidr: '10.0.0.1/24', dad: false, why: 'w' },
  veth,
  { in: 'host', kind: 'port.flags', dev: 'veth1', hairpin: true, isolated: false, why: 'w' },
  { in: 'pod', kind: 'addr.replace', dev: 'eth0', cidr: '10.0.0.2/24', dad: false, why: 'w' },
  { in: 'pod', kind: 'link.up', dev: 'eth0', why: 'w' },
  {
    in: 'pod',
    kind: 'route.add',
    dev: 'eth0',
    route: { dst: '0.0.0.0/0', gw: '10.0.0.1' },
    onlyIfNone: true,
    why: 'w',
  },
  { in: 'host', kind: 'nft.base', table: 'inet', why: 'w' },
  { in: 'host', kind: 'nft.add', set: 'masq4', key: ['10.0.0.0/24'], why: 'w' },
]
const link = (name: string, more: Partial<ObservedLink>): ObservedLink => ({
  name,
  index: 1,
  mac: '',
  mtu: 1500,
  up: true,
  promisc: false,
  allmulti: false,
  addresses: [],
  ...more,
})
const links = (...some: ObservedLink[]) => ({
  links: new Map(some.map((each) => [each.name, each])),
  routes: new Map(),
})
const bridge = link('cni0', { kind: 'bridge', mac: '02:00:00:00:00:09', addresses: ['10.0.0.1/24'] })
const port = link('veth1', { mac: '02:00:00:00:00:01', master: 'cni0', hairpin: true, isolated: false, peerIndex: 2 })
const eth0 = link('eth0', { index: 2, mac: '02:00:00:00:00:02', addresses: ['10.0.0.2/24'] })
const pod = { ...links(eth0), routes: new Map([[254, [{ dst: '0.0.0.0/0', gw: '10.0.0.1', dev: 'eth0' }]]]) }
const table = {
  rules: new Map(declarationsOf('inet').chains.map((chain) => [chain.name, chain.rules.map(({ comment }) => comment)])),
  elements: indexElements([{ set: 'masq4', key: ['10.0.0.0/24'] }]),
}
const applied: Observed = { host: links(bridge, port), pod, table, sysctls: new Map([['net/ipv4/ip_forward', '1']]) }
const foundIn = (observed: Observed) => difference(ops, observed).flatMap(({ found }) => found)

describe('difference', () => {
  it('is empty when every operation has been applied', () => {
    expect(difference(ops, applied)).toEqual([])
  })

  it('is every operation, once, where there is nothing', () => {
    const nothing: Observed = {
      host: emptyNamespace,
      pod: emptyNamespace,
      table: 'absent',
      sysctls: new Map([['net/ipv4/ip_forward', '0']]),
    }
    expect(difference(ops, nothing).map(({ op }) => op)).toEqual(ops)
  })

  it('is nothing for what was not looked at', () => {
    const { pod: _pod, table: _table, ...host } = applied
    expect(difference(ops, { ...host, sysctls: new Map() })).toEqual([])
  })

  it.each<[string, Partial<Observed>, RegExp]>([
    [
      'a bridge that is another kind of link',
      { host: links({ ...bridge, kind: 'dummy' }, port) },
      /kind of cni0 is dummy, not bridge/,
    ],
    [
      'a bridge without its gateway address',
      { host: links({ ...bridge, addresses: [] }, port) },
      /10\.0\.0\.1\/24 is missing on cni0/,
    ],
    [
      'a port that lost its bridge',
      { host: links(bridge, { ...port, master: 'br9' }) },
      /bridge of veth1 is br9, not cni0/,
    ],
    ['a port without hairpin', { host: links(bridge, { ...port, hairpin: false }) }, /hairpin of veth1 is off, not on/],
    ['a host end that is down', { host: links(bridge, { ...port, up: false }) }, /veth1 is down/],
    [
      'a host end that belongs to another pod',
      { host: links(bridge, { ...port, peerIndex: 77 }) },
      /other end of veth1 is 77, not 2/,
    ],
    [
      'a pod end with another MAC',
      { pod: { ...pod, ...links({ ...eth0, mac: '02:ff:ff:ff:ff:ff' }), routes: pod.routes } },
      /MAC of eth0 is/,
    ],
    ['a pod end that is gone', { pod: { ...links(), routes: pod.routes } }, /eth0 is missing/],
    [
      'a pod without its default route',
      { pod: { ...pod, routes: new Map() } },
      /route to 0\.0\.0\.0\/0 via 10\.0\.0\.1 dev eth0 is missing/,
    ],
    [
      'a pod with its default route elsewhere',
      { pod: { ...pod, routes: new Map([[254, [{ dst: '0.0.0.0/0', gw: '10.0.0.9', dev: 'eth0' }]]]) } },
      /is different/,
    ],
    ['a table that is gone', { table: 'absent' }, /nft table inet trestle is missing/],
    [
      'a table that was flushed',
      { table: { ...table, rules: new Map(declarationsOf('inet').chains.map(({ name }) => [name, []])) } },
      /nft rule .* is missing from/,
    ],
    [
      'a set without its element',
      { table: { ...table, elements: new Map() } },
      /element 10\.0\.0\.0\/24 is missing from nft set masq4/,
    ],
    [
      'forwarding that is off',
      { sysctls: new Map([['net/ipv4/ip_forward', '0']]) },
      /net\.ipv4\.ip_forward is 0, not 1/,
    ],
  ])('tells of %s', (_, changed, sentence) => {
    const found = foundIn({ ...applied, ...changed })
    expect(found.length).toBeGreaterThan(0)
    expect(found.join('\n')).toMatch(sentence)
  })

  it('has the settings of a port that goes to its bridge, which are as wanted on the other', () => {
    const dev = 'veth1'
    const setting: readonly Op[] = [
      { in: 'host', kind: 'port.master', dev, master: 'cni0', why: 'w' },
      { in: 'host', kind: 'port.flags', dev, hairpin: true, isolated: false, why: 'w' },
      { in: 'host', kind: 'vlan.del', dev, vid: 1, why: 'w' },
      { in: 'host', kind: 'vlan.add', dev, vid: 10, tagged: false, why: 'w' },
      { in: 'host', kind: 'link.up', dev, why: 'w' },
    ]
    const vlans = new Map([[dev, [10]]])
    expect(difference(setting, { ...applied, vlans })).toEqual([])
    const elsewhere = { ...applied, host: links(bridge, { ...port, master: 'br9' }), vlans }
    expect(difference(setting, elsewhere).map(({ op }) => op)).toEqual(setting.slice(0, 4))
    expect(difference(setting, elsewhere).flatMap(({ found }) => found)).toEqual(['bridge of veth1 is br9, not cni0'])
  })

  it('tells of the inside of a pod alone, with its end of the pair, whose host end was not looked at', () => {
    const inside = (...ends: ObservedLink[]): Observed => {
      return { host: emptyNamespace, pod: { ...pod, ...links(...ends), routes: pod.routes }, sysctls: new Map() }
    }
    expect(podDifference(ops, inside(eth0))).toEqual([])
    expect(podDifference(ops, inside({ ...eth0, mtu: 9000 }))).toEqual(['MTU of eth0 is 9000, not 1500'])
    expect([...new Set(podDifference(ops, inside()))]).toEqual(['eth0 is missing'])
  })

  it('tells of a macvlan in a pod, whose master was not looked at', () => {
    const [mac, made] = ['02:00:00:00:00:01', '02:00:00:00:00:02']
    const macvlan: Op = {
      in: 'host',
      kind: 'macvlan.add',
      dev: 'up0',
      name: 'mac1',
      ifName: 'eth0',
      mac: made,
      mtu: 1500,
      group: 1,
      mode: 'bridge',
      why: 'w',
    }
    const end = { ...eth0, kind: 'macvlan', macvlanMode: 'bridge', peerIndex: 7 }
    const inPod = (link: ObservedLink) => podDifference([macvlan], { ...applied, pod: links(link) })
    expect(inPod(end)).toEqual([])
    expect(inPod({ ...end, mtu: 9000, mac })).toEqual([
      `MAC of eth0 is ${mac}, not ${made}`,
      'MTU of eth0 is 9000, not 1500',
    ])
  })

  it('misses a setting of IPv6 where its link is gone, not where the link has no IPv6', () => {
    const key = 'net/ipv6/conf/cni0/accept_ra'
    const setting: Op = { in: 'host', kind: 'sysctl.write', key, value: '0', why: 'w' }
    const sysctls = new Map([[key, undefined]])
    expect(difference([setting], { host: links(bridge), sysctls })).toEqual([])
    const found = ['net.ipv6.conf.cni0.accept_ra is absent, not 0']
    expect(difference([setting], { host: emptyNamespace, sysctls })).toEqual([{ op: setting, found }])
  })
})
