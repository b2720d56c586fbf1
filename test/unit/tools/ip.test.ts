// SPDX-License-Identifier: Apache-2.0
// Each operation as the arguments of one `ip` command.

import { describe, expect, it } from 'vitest'
import type { OpKind } from '../../../src-before/model/op.ts'
import { type IpOp, ipWords } from '../../../src-before/tools/ip.ts'

type IpKind = Extract<OpKind, { kind: IpOp['kind'] }>

const textOf = (op: IpKind) => ipWords({ ...op, in: 'host', why: 'w' } as IpOp).join(' ')
const macs = { mac: '02:00:00:00:00:01', peerMac: '02:00:00:00:00:02' }
const veth = { kind: 'veth.add', name: 'v', ...macs, mtu: 1500, peer: 'eth0' } as const
const bridge = { kind: 'bridge.add', name: 'cni0', mac: macs.mac, mtu: 1450 } as const
const address = { kind: 'addr.replace', dev: 'eth0' } as const
const route = { kind: 'route.add', dev: 'eth0', onlyIfNone: false } as const

describe('links', () => {
  it.each<[string, IpKind]>([
    [
      'link add name v mtu 1500 address 02:00:00:00:00:01 up type veth peer name eth0 mtu 1500 address 02:00:00:00:00:02 netns /proc/self/fd/3',
      veth,
    ],
    [
      'link add name v mtu 1500 address 02:00:00:00:00:01 master cni0 up type veth peer name eth0 mtu 1400 address 02:00:00:00:00:02 netns /proc/self/fd/3',
      { ...veth, master: 'cni0', peerMtu: 1400 },
    ],
    ['link add name cni0 address 02:00:00:00:00:01 mtu 1450 up type bridge', { ...bridge, vlanFiltering: false }],
    [
      'link add name cni0 address 02:00:00:00:00:01 mtu 1450 up type bridge vlan_filtering 1',
      { ...bridge, vlanFiltering: true },
    ],
    [
      'link add name g address 02:00:00:00:00:01 mtu 1450 up type veth peer name p mtu 1450',
      { kind: 'vlan.gateway', name: 'g', mac: macs.mac, mtu: 1450, peer: 'p' },
    ],
    [
      'link add name ifb1 address 02:00:00:00:00:01 mtu 1500 up type ifb',
      { kind: 'ifb.add', name: 'ifb1', mac: macs.mac, mtu: 1500 },
    ],
    ['link set dev v up', { kind: 'link.up', dev: 'v' }],
    ['link set dev v down', { kind: 'link.down', dev: 'v' }],
    ['link set dev v address 02:00:00:00:00:01', { kind: 'link.mac', dev: 'v', mac: macs.mac }],
    ['link set dev v alias a', { kind: 'link.alias', dev: 'v', alias: 'a', noLinkLocal: false }],
    ['link set dev v alias a addrgenmode none', { kind: 'link.alias', dev: 'v', alias: 'a', noLinkLocal: true }],
    ['link set dev v addrgenmode none', { kind: 'link.no-local', dev: 'v' }],
    ['link set dev v promisc on', { kind: 'link.promisc', dev: 'v' }],
    ['link set dev v promisc off', { kind: 'link.promisc', dev: 'v', on: false }],
    ['link set dev v mtu 1400', { kind: 'link.mtu', dev: 'v', mtu: 1400 }],
    ['link set dev v allmulticast off', { kind: 'link.allmulti', dev: 'v', on: false }],
    ['link set dev v txqueuelen 0', { kind: 'link.txqlen', dev: 'v', length: 0 }],
    ['link set dev v group 77', { kind: 'link.group', dev: 'v', group: 77 }],
    ['link del group 77', { kind: 'group.del', group: 77 }],
    ['link del dev v', { kind: 'link.del', dev: 'v' }],
    ['link set dev v master cni0 up', { kind: 'port.master', dev: 'v', master: 'cni0' }],
    ['link set dev v type bridge_slave isolated on', { kind: 'port.isolation', dev: 'v', isolated: true }],
    [
      'link set dev v type bridge_slave hairpin on isolated off',
      { kind: 'port.flags', dev: 'v', hairpin: true, isolated: false },
    ],
  ])('%s', (text, op) => expect(textOf(op)).toBe(text))
})

describe('addresses, routes, rules', () => {
  it.each<[string, IpKind]>([
    ['addr replace 10.0.0.2/24 broadcast + dev eth0', { ...address, cidr: '10.0.0.2/24', dad: false }],
    ['addr replace fd00::2/64 nodad dev eth0', { ...address, cidr: 'fd00::2/64', dad: false }],
    ['addr replace fd00::2/64 dev eth0', { ...address, cidr: 'fd00::2/64', dad: true }],
    [
      'addr replace fd00::2/64 nodad noprefixroute dev eth0',
      { ...address, cidr: 'fd00::2/64', dad: false, noPrefixRoute: true },
    ],
    ['addr del 10.0.0.2/24 dev eth0', { kind: 'addr.del', dev: 'eth0', cidr: '10.0.0.2/24' }],
    ['addr show dev eth0', { kind: 'addr.show', dev: 'eth0' }],
    ['link show dev eth0', { kind: 'link.show', dev: 'eth0' }],
    ['route append 10.9.0.0/16 dev eth0', { ...route, route: { dst: '10.9.0.0/16' } }],
    [
      'route append 10.9.0.0/16 via 10.0.0.1 dev eth0 metric 5 table 100 scope 253 src 10.0.0.2 mtu 1400 advmss 1360',
      {
        ...route,
        route: {
          dst: '10.9.0.0/16',
          gw: '10.0.0.1',
          priority: 5,
          table: 100,
          scope: 253,
          src: '10.0.0.2',
          mtu: 1400,
          advmss: 1360,
        },
      },
    ],
    ['route append 10.9.0.0/16 dev eth0 metric 0', { ...route, route: { dst: '10.9.0.0/16', priority: 0 } }],
    ['route add ::/0 via fd00::1 dev eth0', { ...route, onlyIfNone: true, route: { dst: '::/0', gw: 'fd00::1' } }],
    [
      'route append ::/0 via fd00::2 dev eth0',
      { ...route, onlyIfNone: true, beside: true, route: { dst: '::/0', gw: 'fd00::2' } },
    ],
    ['route del ::/0 via fd00::1 dev eth0', { kind: 'route.del', dev: 'eth0', route: { dst: '::/0', gw: 'fd00::1' } }],
    ['route show table all exact 0.0.0.0/0', { kind: 'route.show-default', family: 4 }],
    ['route show table all exact ::/0', { kind: 'route.show-default', family: 6 }],
    ['route replace 10.0.0.2/32 dev v', { kind: 'hostroute.replace', dev: 'v', dst: '10.0.0.2/32' }],
    ['rule add from 10.0.0.2/32 table 100', { kind: 'rule.add', from: '10.0.0.2/32', table: 100 }],
    ['rule del from fd00::2/128 table 101', { kind: 'rule.del', from: 'fd00::2/128', table: 101 }],
    [
      'neigh replace 10.0.0.2 dev eth0 lladdr ff:ff:ff:ff:ff:ff nud probe',
      { kind: 'neigh.announce', dev: 'eth0', address: '10.0.0.2' },
    ],
  ])('%s', (text, op) => expect(textOf(op)).toBe(text))
})
