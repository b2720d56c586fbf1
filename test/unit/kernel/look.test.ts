// SPDX-License-Identifier: Apache-2.0
// Links, routes, rules and VLANs from recorded output of iproute2 6.1 (`ip -N -j -d`).

import { describe, expect, it } from 'vitest'
import { lookAtPod, readDocuments, readLinks, readRoutes } from '../../../src/kernel/look.ts'
import { lookAtVlans } from '../../../src/kernel/queue-look.ts'
import type { Machine } from '../../../src/process/machine.ts'

const port =
  '[{"ifindex":4,"link":"v1","ifname":"v0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1400,"qdisc":"noqueue","master":"br7","operstate":"UP","group":"default","txqlen":1000,"link_type":"ether","address":"02:00:00:00:00:01","broadcast":"ff:ff:ff:ff:ff:ff","linkinfo":{"info_kind":"veth","info_slave_kind":"bridge","info_slave_data":{"state":"forwarding","hairpin":true,"isolated":false}},"ifalias":"trestle:n/c/eth0","addr_info":[]}]'
const elsewhere =
  '[{"ifindex":2,"link_index":7,"ifname":"eth0","flags":["BROADCAST","PROMISC","ALLMULTI","LOWER_UP"],"mtu":1500,"txqlen":500,"address":"02:00:00:00:00:02","link_netnsid":0,"linkinfo":{"info_kind":"veth"},"addr_info":[{"family":"inet","local":"10.0.0.2","prefixlen":24,"broadcast":"10.0.0.255","label":"eth0"},{"family":"inet6","local":"fd00::2","prefixlen":64,"nodad":true}]}]'
const routes4 =
  '[{"type":"unicast","dst":"10.9.0.0/16","gateway":"10.0.0.1","dev":"v1","table":"100","protocol":"boot","metric":50,"flags":[],"metrics":[{"mtu":1300}]},{"type":"unicast","dst":"default","gateway":"10.0.0.1","dev":"v1","table":"254","flags":[]},{"type":"local","dst":"10.0.0.2","dev":"v1","table":"255","flags":[]}]'
const routes6 =
  '[{"type":"unicast","dst":"default","gateway":"fd00::1","dev":"v1","table":"254","metric":1024,"flags":[],"pref":"medium"},{"type":"unicast","dst":"fd00::/64","dev":"v1","table":"254","metric":256,"flags":[],"pref":"medium"}]'
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
      txQLen: 500,
      addresses: ['10.0.0.2/24', 'fd00::2/64'],
    })
  })
  it('reads no link from routes', () => {
    expect(readLinks(readDocuments(routes4)).size).toBe(0)
  })
})

describe('readRoutes', () => {
  const read = (...texts: readonly string[]) => readRoutes(readDocuments(texts.join('\n')))

  it('reads routes with table, metric and MTU, of both families', () => {
    expect(read(port, routes4, routes6)).toEqual([
      { dst: '10.9.0.0/16', gw: '10.0.0.1', dev: 'v1', table: 100, priority: 50, mtu: 1300 },
      { dst: '0.0.0.0/0', gw: '10.0.0.1', dev: 'v1', table: 254 },
      { dst: '10.0.0.2/32', dev: 'v1', table: 255 },
      { dst: '::/0', gw: 'fd00::1', dev: 'v1', table: 254, priority: 1024 },
      { dst: 'fd00::/64', dev: 'v1', table: 254, priority: 256 },
    ])
  })

  it('reads every hop of a multipath route, and an IPv4 route through an IPv6 gateway', () => {
    expect(read(multipath, viaOtherFamily)).toEqual([
      { dst: '0.0.0.0/0', gw: '10.0.0.1', dev: 'a', table: 254 },
      { dst: '0.0.0.0/0', gw: '10.0.1.1', dev: 'b', table: 254 },
      { dst: '10.8.0.0/16', gw: 'fe80::1', dev: 'v1', table: 254 },
    ])
  })

  it('tells a subnet that a router of the link advertises', () => {
    expect(read('[{"dst":"2001:db8::/64","dev":"up0","protocol":"ra","pref":"medium"}]')).toMatchObject([
      { isAdvertised: true },
    ])
  })
})

describe('a look into a pod', () => {
  const lookedAt = async (stdout: string, rules6: string, stderr = '') => {
    const asked: string[] = []
    const ask: Machine['ask'] = async ({ args, stdin = '' }) => {
      asked.push(String(stdin))
      return { code: stderr === '' ? 0 : 1, stdout: args.includes('-6') ? rules6 : stdout, stderr } as never
    }
    const keys = ['net/core/somaxconn', 'net/ipv4/conf/eth0.10/arp_filter']
    const netns = { fd: 3, identity: { path: '', inode: 0 } }
    const seen = await lookAtPod({ ask } as Machine, netns, { ruleFamilies: [4, 6], keys })
    return { asked, ...seen }
  }
  const rules4 = '[{"priority":0,"src":"all","table":"255"},{"priority":9,"src":"10.0.0.2","table":"100"}]'
  const rules6 = '[{"priority":9,"src":"fd00::","srclen":64,"table":"101"}]'

  it('has rules and sysctls, whose dots and slashes sysctl exchanges', async () => {
    const text = `net.core.somaxconn = 9\nnet.ipv4.conf.eth0/10.arp_filter = 1\n${port}\n${rules4}\n`
    const { asked, pod, podSysctls } = await lookedAt(text, rules6)
    expect(asked[0]).toMatch(/^net\/core\/somaxconn\nnet\/ipv4\/conf\/eth0\.10\/arp_filter\n\naddr show\n/)
    expect([...podSysctls.values()]).toEqual(['9', '1'])
    expect(pod.rules).toEqual([
      { from: 'all', table: 255 },
      { from: '10.0.0.2/32', table: 100 },
      { from: 'fd00::/64', table: 101 },
    ])
  })

  it('that finds nothing is an answer, one that is refused is none', async () => {
    expect((await lookedAt('', '', 'Device "eth0" does not exist.')).pod.links.size).toBe(0)
    await expect(lookedAt('', '', 'RTNETLINK answers: No buffer space available')).rejects.toMatchObject({ code: 100 })
  })
})

it('VLANs of ports are read by id and range', async () => {
  const stdout =
    '[{"ifname":"v1","vlans":[{"vlan":1,"flags":["PVID"]},{"vlan":200,"vlanEnd":202}]},{"ifname":"cni0","vlans":[{"vlan":1}]}]'
  const machineOf = (text: string) =>
    ({ ask: async () => ({ code: 0, stdout: text, stderr: '' }) }) as unknown as Machine
  expect([...(await lookAtVlans(machineOf(stdout)))]).toEqual([
    ['v1', [1, 200, 201, 202]],
    ['cni0', [1]],
  ])
  expect((await lookAtVlans(machineOf(''))).size).toBe(0)
})
