// SPDX-License-Identifier: Apache-2.0
// Routes as iproute2 6.1 printed them on Linux 6.18, and the lines that change them: never one of somebody else.

import { describe, expect, it } from 'vitest'
import {
  lookAtRoutes,
  planRoutes,
  readRefusals,
  readRoutes,
  routeByGateway,
  routeByOverlay,
  settleRoutes,
  unreachableRoute,
} from '../../../src/agent/routes.ts'
import type { Output } from '../../../src/process/runner.ts'
import { base, changed, encapsulated, link, ours, range, via } from './cluster-facts.ts'

/** As one line. */
const line = (text: string) => text.replace(/\n */g, '')
const device = line(`[{"ifindex":4,"ifname":"trestle0","flags":["POINTOPOINT","MULTICAST","NOARP","UP","LOWER_UP"],
  "mtu":1464,"qdisc":"noqueue","operstate":"UNKNOWN","linkinfo":{"info_kind":"vxlan","info_data":{"external":true,
  "id":0,"port":4790,"learning":false,"udp_csum":true,"udp_zero_csum6_tx":true,"udp_zero_csum6_rx":true,"gpe":true}},
  "addr_info":[{"family":"inet","local":"10.0.1.0","prefixlen":32,"scope":"0","label":"trestle0"}]}]`)
const four =
  line(`[{"type":"1","dst":"default","gateway":"192.0.2.254","dev":"eth0","protocol":"3","scope":"0","flags":[]},
  {"type":"7","dst":"10.0.1.0/24","protocol":"116","scope":"0","metric":116,"flags":[]},
  {"type":"1","dst":"10.0.2.0/24","gateway":"192.0.2.2","dev":"eth0","protocol":"116","scope":"0","metric":116,
  "flags":[]},{"type":"1","dst":"10.0.3.0/24","encap":"ip","id":4790,"src":"0.0.0.0","dst":"198.51.100.3","ttl":0,
  "tos":0,"dev":"trestle0","protocol":"116","scope":"253","metric":116,"flags":[]},{"type":"1","dst":"10.0.4.0/24",
  "encap":"ip6","id":4790,"src":"::","dst":"2001:db8:4::4","hoplimit":0,"tc":0,"csum":true,"dev":"trestle0",
  "protocol":"116","scope":"253","metric":116,"flags":[]},
  {"type":"1","dst":"192.0.2.0/24","dev":"eth0","protocol":"2","scope":"253","prefsrc":"192.0.2.1","flags":[]},
  {"type":"1","dst":"198.18.0.0/15","protocol":"3","scope":"0","flags":[],"nexthops":[{"gateway":"192.0.2.7",
  "dev":"eth0","weight":1,"flags":[]},{"gateway":"192.0.2.8","dev":"eth0","weight":1,"flags":[]}]},
  {"type":"1","dst":"203.0.113.0/24","via":{"family":"inet6","host":"2001:db8::7"},"dev":"eth0","protocol":"3",
  "scope":"0","flags":[]}]`)
const six = line(`[{"type":"1","dst":"2001:db8::/64","dev":"eth0","table":"254","protocol":"2","scope":"0","metric":256,
  "flags":[],"pref":"medium"},{"type":"7","dst":"fd00:1::/64","dev":"lo","table":"254","protocol":"116","scope":"0",
  "metric":116,"flags":[],"pref":"medium"},{"type":"1","dst":"fd00:3::/64","encap":"ip","id":4790,"src":"0.0.0.0",
  "dst":"198.51.100.3","ttl":0,"tos":0,"dev":"trestle0","table":"254","protocol":"116","scope":"0","metric":116,
  "flags":[],"pref":"medium"},{"type":"1","dst":"default","gateway":"fe80::1","dev":"eth0","table":"254",
  "protocol":"3","scope":"0","metric":1024,"flags":[],"pref":"medium"},{"type":"2","dst":"::1","dev":"lo",
  "table":"255","protocol":"2","scope":"0","metric":0,"flags":[],"pref":"medium"}]`)
const stdout = `${device}\n${four}\n${six}\n`
const unreachable = (text: string) => link(text, 'lo', { isUnicast: false, metric: 116, protocol: 116 })
const { dev: _, ...unreachable4 } = unreachable('10.0.1.0/24')

describe('what ip prints', () => {
  it('is read for both families, the main table alone', () => {
    expect(readRoutes(stdout)).toEqual([
      via('0.0.0.0/0', '192.0.2.254'),
      unreachable4,
      ours('10.0.2.0/24', '192.0.2.2'),
      encapsulated('10.0.3.0/24', '198.51.100.3'),
      encapsulated('10.0.4.0/24', '2001:db8:4::4'),
      link('192.0.2.0/24', 'eth0'),
      via('198.18.0.0/15', '192.0.2.7'),
      via('203.0.113.0/24', '2001:db8::7'),
      link('2001:db8::/64', 'eth0', { metric: 256 }),
      unreachable('fd00:1::/64'),
      encapsulated('fd00:3::/64', '198.51.100.3'),
      via('::/0', 'fe80::1', { metric: 1024 }),
    ])
  })

  // `pref` is in each route of IPv6; the family of the gateway says nothing (RFC 5549: unnumbered BGP).
  it('as the default route of IPv4 by a router of IPv6 is one of IPv4', () => {
    const by = '"via":{"family":"inet6","host":"fe80::1"},"dev":"eth0"'
    const text = `[{"type":"1","dst":"default",${by},"protocol":"186","scope":"0","flags":[]}]`
    expect(readRoutes(text)).toEqual([via('0.0.0.0/0', 'fe80::1', { protocol: 186 })])
  })

  it.each([
    ['"gateway":"192.0.2.9"', via('10.0.9.0/24', '192.0.2.9')],
    ['"type":"unicast","table":"main"', link('10.0.9.0/24', 'eth0', { protocol: 3 })],
    ['"type":"1","table":"77"', undefined],
    ['"type":"1","dst":"x"', undefined],
  ])('is read with %s, as other versions print it', (keys, route) => {
    expect(readRoutes(`[{"dst":"10.0.9.0/24","dev":"eth0","protocol":"3",${keys}},{}]\n[ ]\n`)).toEqual(
      route === undefined ? [] : [route],
    )
  })

  it('is read once while it is the same, with the device', async () => {
    const asked: unknown[] = []
    const answer = (output: Partial<Output>) => async (command: unknown) => {
      asked.push(command)
      return { code: 0, stdout: '', stderr: '', ...output }
    }
    const first = await lookAtRoutes(answer({ stdout }))
    expect(first.device).toEqual({ isGpe: true, port: 4790, mtu: 1464, isUp: true, addresses: ['10.0.1.0/32'] })
    expect(await lookAtRoutes(answer({ stdout }), first)).toBe(first)
    // Without the device `ip -force` goes on, and fails.
    const stderr = 'Device "trestle0" does not exist.\nCommand failed -:1\n'
    const none = await lookAtRoutes(answer({ code: 1, stdout: `${four}\n[]\n`, stderr }), first)
    expect(none.device).toBeUndefined()
    expect(none.routes).toHaveLength(8)
    expect(asked).toHaveLength(3)
    await expect(lookAtRoutes(answer({ code: undefined, stderr: 'killed' }))).rejects.toMatchObject({ code: 100 })
  })
})

describe('planRoutes', () => {
  const wanted = [
    unreachableRoute(range('10.0.1.0/24')),
    routeByGateway(range('10.0.2.0/24'), '192.0.2.2', 'eth0'),
    routeByOverlay(range('10.0.3.0/24'), '198.51.100.3', 4790),
    routeByOverlay(range('fd00:4::/64'), '2001:db8:4::4', 4790),
    unreachableRoute(range('fd00:1::/64')),
  ]
  const there = [
    unreachable4,
    ours('10.0.2.0/24', '192.0.2.2'),
    encapsulated('10.0.3.0/24', '198.51.100.3'),
    encapsulated('fd00:4::/64', '2001:db8:4::4'),
    unreachable('fd00:1::/64'),
  ]
  const lines = (...given: Parameters<typeof planRoutes>) => planRoutes(...given).map(({ words }) => words.join(' '))

  it('add what is missing, and nothing where all is there', () => {
    expect(lines(base, wanted)).toEqual([
      'route replace unreachable 10.0.1.0/24 metric 116 proto 116',
      'route replace 10.0.2.0/24 via 192.0.2.2 dev eth0 metric 116 proto 116',
      'route replace 10.0.3.0/24 encap ip id 4790 dst 198.51.100.3 dev trestle0 metric 116 proto 116',
      'route replace fd00:4::/64 encap ip6 id 4790 dst 2001:db8:4::4 csum dev trestle0 metric 116 proto 116',
      'route replace unreachable fd00:1::/64 metric 116 proto 116',
    ])
    expect(lines([...base, ...there], wanted)).toEqual([])
  })

  it.each([
    ['10.0.2.0/24', ours('10.0.2.0/24', '192.0.2.9')],
    ['10.0.2.0/24', ours('10.0.2.0/24', '192.0.2.2', { dev: 'eth1' })],
    ['10.0.2.0/24', encapsulated('10.0.2.0/24', '192.0.2.2')],
    ['10.0.3.0/24', encapsulated('10.0.3.0/24', '198.51.100.4')],
    ['10.0.3.0/24', encapsulated('10.0.3.0/24', '198.51.100.3', 5)],
    ['10.0.3.0/24', ours('10.0.3.0/24', '198.51.100.3')],
    ['10.0.1.0/24', ours('10.0.1.0/24', '192.0.2.2')],
  ])('replace a route to %s that leads elsewhere, in one step: %#', (text, other) => {
    const table = there.filter((route) => route.range.text !== text)
    const changes = planRoutes([...table, other], wanted)
    expect(changes.map(({ words }) => words.join(' '))).toEqual([expect.stringMatching(`^route replace .*${text} `)])
  })

  it('remove what is over, unless it is kept, first', () => {
    const [stale, kept] = [ours('10.0.8.0/24', '192.0.2.8'), encapsulated('10.0.9.0/24', '198.51.100.9')]
    const over = [stale, kept, unreachable('fd00:9::/64')]
    expect(lines([...there, ...over], wanted, new Set([kept]))).toEqual([
      'route del 10.0.8.0/24 via 192.0.2.8 dev eth0 metric 116 proto 116',
      'route del fd00:9::/64 metric 116 proto 116',
    ])
    expect(lines(over, [])).toContain('route del 10.0.9.0/24 dev trestle0 metric 116 proto 116')
    // One with another metric goes by that metric, and the right one beside it stays.
    const stray = ours('10.0.2.0/24', '192.0.2.2', { metric: 50 })
    const changes = planRoutes([...there, stray], wanted)
    expect(lines([...there, stray], wanted)).toEqual([
      'route del 10.0.2.0/24 via 192.0.2.2 dev eth0 metric 50 proto 116',
    ])
    expect(changed([...there, stray], changes)).toEqual(there)
  })
})

describe('readRefusals', () => {
  const changes = ['a', 'b', 'c', 'd', 'e'].map((why) => ({ words: ['route', why === 'b' ? 'del' : 'replace'], why }))
  const stderr = `Error: Nexthop has invalid gateway.
Command failed -:1
RTNETLINK answers: No such process
Command failed -:2
Error: Gateway can not be a local address.
Command failed -:4
`
  it('names the changes by their lines, with the kernel’s text', () => {
    expect(readRefusals(changes, stderr)).toEqual([
      { change: changes[0], text: 'Error: Nexthop has invalid gateway.' },
      { change: changes[1], text: 'RTNETLINK answers: No such process' },
      { change: changes[3], text: 'Error: Gateway can not be a local address.' },
    ])
    expect(readRefusals(changes, '')).toEqual([])
    expect(readRefusals(changes, 'a\nb\nCommand failed -:2\nx\nCommand failed -:9\n')).toEqual([
      { change: changes[1], text: 'a b' },
    ])
  })
})

describe('settleRoutes', () => {
  const looked = { digest: 'x', routes: [...base, ours('10.0.2.0/24', '192.0.2.9'), ours('10.0.8.0/24', '192.0.2.8')] }
  const wanted = [
    routeByGateway(range('10.0.2.0/24'), '192.0.2.2', 'eth0'),
    routeByOverlay(range('10.0.3.0/24'), '198.51.100.3', 4790),
  ]
  const answer = (stderr: string, code: number | undefined = stderr === '' ? 0 : 1) => {
    return async () => ({ code, stdout: '', stderr })
  }

  it('returns the table as it is then', async () => {
    const { looked: now, made, refusals } = await settleRoutes(answer(''), looked, { wanted })
    expect([now.digest, now.routes, refusals]).toEqual(['', [...base, ...wanted], []])
    expect(made).toHaveLength(3)
    expect(await settleRoutes(answer('not run', undefined), now, { wanted })).toMatchObject({ made: [], looked: now })
    const without = await settleRoutes(
      answer(''),
      { ...now, routes: [...base, wanted[1] ?? base[0]] as typeof base },
      {
        wanted,
        isOverlayUsable: false,
      },
    )
    expect(without.looked.routes).toContainEqual(wanted[1])
    const missing = await settleRoutes(answer(''), looked, { wanted, isOverlayUsable: false })
    expect(missing.looked.routes).not.toContainEqual(wanted[1])
    const stale = await settleRoutes(answer(''), looked, { wanted, isStale: true })
    expect(stale.looked.routes).toContainEqual(ours('10.0.8.0/24', '192.0.2.8'))
  })

  it('takes a route that is gone for removed, and a killed ip for no refusal', async () => {
    const stderr =
      'RTNETLINK answers: No such process\nCommand failed -:1\nError: Nexthop has invalid gateway.\nCommand failed -:2\n'
    const { looked: now, refusals } = await settleRoutes(answer(stderr), looked, { wanted })
    expect(refusals.map(({ change }) => change.why)).toEqual(['route 10.0.2.0/24 by 192.0.2.2'])
    expect(now.routes).toContainEqual(ours('10.0.2.0/24', '192.0.2.9'))
    expect(now.routes).not.toContainEqual(ours('10.0.8.0/24', '192.0.2.8'))
    const killed = settleRoutes(answer('killed', undefined), looked, { wanted })
    await expect(killed).rejects.toMatchObject({ code: 100 })
  })
})
