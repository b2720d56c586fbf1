// SPDX-License-Identifier: Apache-2.0
// Links and routes from recorded output of iproute2 6.1 (`ip -j -d addr show`, `ip -j route show table all`).

import { describe, expect, it } from 'vitest'
import { readDocuments, readLinks, readRoutes } from '../../../src-before/tools/ip.ts'

const port =
  '[{"ifindex":4,"link":"v1","ifname":"v0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1400,"qdisc":"noqueue","master":"br7","operstate":"UP","group":"default","txqlen":1000,"link_type":"ether","address":"02:00:00:00:00:01","broadcast":"ff:ff:ff:ff:ff:ff","linkinfo":{"info_kind":"veth","info_slave_kind":"bridge","info_slave_data":{"state":"forwarding","hairpin":true,"isolated":false}},"ifalias":"trestle:n/c/eth0","addr_info":[]}]'
const elsewhere =
  '[{"ifindex":2,"link_index":7,"ifname":"eth0","flags":["BROADCAST","PROMISC","ALLMULTI","LOWER_UP"],"mtu":1500,"txqlen":500,"address":"02:00:00:00:00:02","link_netnsid":0,"linkinfo":{"info_kind":"veth"},"addr_info":[{"family":"inet","local":"10.0.0.2","prefixlen":24,"broadcast":"10.0.0.255","scope":"global","label":"eth0"},{"family":"inet6","local":"fd00::2","prefixlen":64,"scope":"global","nodad":true}]}]'
const routes4 =
  '[{"type":"unicast","dst":"10.9.0.0/16","gateway":"10.0.0.1","dev":"v1","table":"100","protocol":"boot","scope":"global","metric":50,"flags":[],"metrics":[{"mtu":1300}]},{"type":"unicast","dst":"default","gateway":"10.0.0.1","dev":"v1","table":"main","flags":[]},{"type":"local","dst":"10.0.0.2","dev":"v1","table":"local","flags":[]}]'
const routes6 =
  '[{"type":"unicast","dst":"default","gateway":"fd00::1","dev":"v1","table":"main","metric":1024,"flags":[],"pref":"medium"},{"type":"unicast","dst":"fd00::/64","dev":"v1","table":"main","metric":256,"flags":[],"pref":"medium"}]'
const viaOtherFamily = '[{"dst":"10.8.0.0/16","via":{"family":"inet6","host":"fe80::1"},"dev":"v1","flags":[]}]'
const multipath =
  '[{"dst":"default","flags":[],"nexthops":[{"gateway":"10.0.0.1","dev":"a","weight":1},{"gateway":"10.0.1.1","dev":"b","weight":1}]}]'

describe('readDocuments', () => {
  it('reads one array a line and passes over empty objects and lines that are none', () => {
    expect(readDocuments('[{"a":1},{}]\n\n[]\nDevice "x" does not exist.\n[{"b":2}]\n')).toEqual([{ a: 1 }, { b: 2 }])
  })
  it('throws a SyntaxError on output that was cut', () => {
    expect(() => readDocuments('[{"a":1')).toThrow(SyntaxError)
  })

  it('reads what a pod wrote into the alias of its interface', () => {
    expect(readDocuments('[{"ifname":"eth0","ifalias":"x\u0001y"}]')).toEqual([{ ifname: 'eth0', ifalias: 'x?y' }])
  })
})

describe('readLinks', () => {
  it('reads a bridge port', () => {
    expect(readLinks(readDocuments(port)).get('v0')).toMatchObject({
      name: 'v0',
      index: 4,
      mac: '02:00:00:00:00:01',
      mtu: 1400,
      up: true,
      kind: 'veth',
      master: 'br7',
      alias: 'trestle:n/c/eth0',
      hairpin: true,
      isolated: false,
      promisc: false,
      addresses: [],
    })
  })
  it('reads addresses, flags and the other end in another namespace', () => {
    expect(readLinks(readDocuments(elsewhere)).get('eth0')).toMatchObject({
      index: 2,
      peerIndex: 7,
      up: false,
      promisc: true,
      allmulti: true,
      txqlen: 500,
      addresses: ['10.0.0.2/24', 'fd00::2/64'],
    })
  })
  it('reads no link from routes', () => {
    expect(readLinks(readDocuments(routes4)).size).toBe(0)
  })
})

describe('readRoutes', () => {
  it('reads routes by table, with metric and MTU', () => {
    const tables = readRoutes(readDocuments(`${port}\n${routes4}\n${routes6}\n`))
    expect([...tables.keys()].sort()).toEqual([100, 254, 255])
    expect(tables.get(100)).toEqual([{ dst: '10.9.0.0/16', gw: '10.0.0.1', dev: 'v1', priority: 50, mtu: 1300 }])
    expect(tables.get(254)).toEqual([
      { dst: '0.0.0.0/0', gw: '10.0.0.1', dev: 'v1' },
      { dst: '::/0', gw: 'fd00::1', dev: 'v1', priority: 1024 },
      { dst: 'fd00::/64', dev: 'v1', priority: 256 },
    ])
    expect(tables.get(255)).toEqual([{ dst: '10.0.0.2/32', dev: 'v1' }])
  })
  it('reads every hop of a multipath route', () => {
    expect(readRoutes(readDocuments(multipath)).get(254)).toEqual([
      { dst: '0.0.0.0/0', gw: '10.0.0.1', dev: 'a' },
      { dst: '0.0.0.0/0', gw: '10.0.1.1', dev: 'b' },
    ])
  })
  it('reads an IPv4 route through an IPv6 gateway', () => {
    expect(readRoutes(readDocuments(viaOtherFamily)).get(254)).toEqual([
      { dst: '10.8.0.0/16', gw: 'fe80::1', dev: 'v1' },
    ])
  })
})
