// SPDX-License-Identifier: Apache-2.0
// Each operation on addresses, routes, rules and neighbours as the words of one `ip` command, and when it does not hold.

import { describe, expect, it } from 'vitest'
import { differencesOf } from '../../../src/kernel/differences.ts'
import { ipWords } from '../../../src/kernel/ip-words.ts'
import type { Observed, ObservedRoute } from '../../../src/kernel/observed.ts'
import type { IpOp, Op } from '../../../src/kernel/operation.ts'
import { linkOf, placeOf } from '../call.ts'

const address = (cidr: string, more: object = {}): IpOp => {
  return { kind: 'address.add', dev: 'eth0', cidr, dad: false, noPrefixRoute: false, ...more }
}
const gw = '10.0.0.1'
const route = (how: 'append' | 'add' | 'replace', to: ObservedRoute | object): IpOp => {
  return { kind: 'route.add', dev: 'eth0', route: to as ObservedRoute, how }
}

describe('the words', () => {
  it.each<[string, IpOp]>([
    ['addr replace 10.0.0.2/24 broadcast + dev eth0', address('10.0.0.2/24')],
    ['addr replace fd00::2/64 nodad dev eth0', address('fd00::2/64')],
    ['addr replace fd00::2/64 dev eth0', address('fd00::2/64', { dad: true })],
    ['addr replace fd00::2/64 nodad noprefixroute dev eth0', address('fd00::2/64', { noPrefixRoute: true })],
    ['addr del 10.0.0.2/24 dev eth0', { kind: 'address.delete', dev: 'eth0', cidr: '10.0.0.2/24' }],
    ['route append 10.9.0.0/16 dev eth0', route('append', { dst: '10.9.0.0/16' })],
    [
      'route append 10.9.0.0/16 via 10.0.0.1 dev eth0 metric 5 table 100 scope 253 src 10.0.0.2 mtu 1400 advmss 1360 onlink proto static',
      route('append', {
        ...{ dst: '10.9.0.0/16', gw, priority: 5, table: 100, scope: 253, src: '10.0.0.2', mtu: 1400, advmss: 1360 },
        ...{ onlink: true, protocol: 'static' },
      }),
    ],
    ['route add ::/0 via fd00::1 dev eth0', route('add', { dst: '::/0', gw: 'fd00::1' })],
    ['route replace 10.0.0.2/32 dev eth0', route('replace', { dst: '10.0.0.2/32' })],
    [
      'route del ::/0 via fd00::1 dev eth0',
      { kind: 'route.delete', dev: 'eth0', route: { dst: '::/0', gw: 'fd00::1' } },
    ],
    ['route show table all exact 0.0.0.0/0', { kind: 'defaults.show', family: 4 }],
    ['route show table all exact ::/0', { kind: 'defaults.show', family: 6 }],
    ['rule add from 10.0.0.2/32 table 100', { kind: 'rule.add', from: '10.0.0.2/32', table: 100 }],
    ['rule del from fd00::2/128 table 101', { kind: 'rule.delete', from: 'fd00::2/128', table: 101 }],
    [
      'neigh replace 10.0.0.2 dev eth0 lladdr ff:ff:ff:ff:ff:ff nud probe',
      { kind: 'announce', dev: 'eth0', address: '10.0.0.2' },
    ],
    ['link set dev eth0 address 02:00:00:00:00:01', { kind: 'announce6', dev: 'eth0', mac: '02:00:00:00:00:01' }],
  ])('%s', (text, op) => expect(ipWords(op).join(' ')).toBe(text))
})

describe('the differences', () => {
  const inPod = (op: IpOp): Op => ({ ...op, place: 'pod', why: 'w' })
  const seen = (routes: readonly object[], addresses: readonly string[] = []): Observed => {
    const place = { ...placeOf(linkOf('eth0', { addresses })), routes: routes as readonly ObservedRoute[] }
    return { host: place, pod: { ...place, rules: [{ from: '10.0.0.2/32', table: 100 }] } }
  }
  const way = { dst: '0.0.0.0/0', gw, dev: 'eth0', table: 254 }
  const wanted = inPod(route('add', { dst: '0.0.0.0/0', gw }))

  it.each<[string, Op, Observed, readonly string[]]>([
    ['none', wanted, seen([way]), []],
    ['none where nothing was looked at', wanted, {}, []],
    ['no route', wanted, seen([]), ['route to 0.0.0.0/0 via 10.0.0.1 dev eth0 is missing']],
    [
      'another gateway',
      wanted,
      seen([{ ...way, gw: '10.0.0.9' }]),
      ['route to 0.0.0.0/0 via 10.0.0.1 dev eth0 is different'],
    ],
    ['another table, where none is asked for: a later plugin may move it', wanted, seen([{ ...way, table: 100 }]), []],
    [
      'another table, where one is asked for',
      inPod(route('append', { dst: '10.9.0.0/16', table: 100 })),
      seen([{ dst: '10.9.0.0/16', dev: 'eth0', table: 254 }]),
      ['route to 10.9.0.0/16 dev eth0 is missing'],
    ],
    [
      'a route of the host',
      { ...route('replace', { dst: '10.0.0.2/32' }), place: 'host', why: '' } as Op,
      seen([]),
      ['host route to 10.0.0.2/32 dev eth0 is missing'],
    ],
    ['an address', inPod(address('10.0.0.2/24')), seen([], ['10.0.0.3/24']), ['10.0.0.2/24 is missing on eth0']],
    [
      'the same address with another length',
      inPod(address('fd00::1/64')),
      seen([], ['fd00::1/48']),
      ['fd00::1/64 is missing on eth0'],
    ],
    [
      'on the host IPv6 has an address once, whatever its length',
      { ...address('fd00::1/64'), place: 'host', why: '' } as Op,
      seen([], ['fd00::1/48']),
      [],
    ],
    [
      'a rule',
      inPod({ kind: 'rule.add', from: '10.0.0.2/32', table: 101 }),
      seen([]),
      ['rule from 10.0.0.2/32 table 101 is missing'],
    ],
  ])('%s', (_, op, observed, lines) => {
    expect(differencesOf(op, observed)).toEqual(lines)
  })
})
