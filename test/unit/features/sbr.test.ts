// SPDX-License-Identifier: Apache-2.0
// Routing by source: which tables, which routes go where, and what is taken back.

import { describe, expect, it } from 'vitest'
import { emptySpec } from '../../../src/drivers/spec.ts'
import { routesBySource, sbr, sbrOf, subnetRoutes } from '../../../src/features/sbr.ts'
import { errorOf, id, type Json, lineOf, read } from '../call.ts'

describe('the keys', () => {
  it.each<[Json, Json | undefined]>([
    [{}, undefined],
    [{ sbr: {} }, { gateways: [], addSourceHints: false }],
    [
      { sbr: { table: 100, gateways: ['10.0.0.1', 'FD00::1'], addSourceHints: true } },
      { table: 100, gateways: ['10.0.0.1', 'fd00::1'], addSourceHints: true },
    ],
  ])('%j', (changes, expected) => {
    expect(read(changes).sbr).toEqual(expected)
  })

  it.each([
    [
      { gateways: ['10.0.0.1', '10.0.0.2'] },
      'sbr.gateways: gateways list contains multiple IPv4 addresses: 10.0.0.1 and 10.0.0.2',
    ],
    [
      { gateways: ['1.1.1.1', '::1', '::2'] },
      'sbr.gateways: gateways list cannot contain more than 2 entries (one IPv4, one IPv6)',
    ],
    [{ gateways: ['x'] }, 'sbr.gateways[0]: invalid static gateway IP address: "x"'],
    [{ table: 0 }, 'sbr.table: 0 is not a routing table from 1 to 4294967295'],
  ])('refuses %j', (sbr, message) => {
    expect(lineOf(errorOf(() => read({ sbr })))).toBe(`(7) ${message}`)
  })
})

const conf = { gateways: [], addSourceHints: false }
const ip4 = { address: '10.1.0.2/24', gateway: '10.1.0.1' }
const ip6 = { address: 'fd00:1::2/64', gateway: 'fd00:1::1' }
const link4 = { dst: '10.1.0.0/24', scope: 253, src: '10.1.0.2' }
const link6 = { dst: 'fd00:1::/64', priority: 256 }
const none = new Set<number>()

describe('tables', () => {
  it('gives each address a table with the routes of its family, links before gateways', () => {
    const routes = [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }, link4, link6]
    const spec = sbrOf(conf, { ips: [ip4, ip6], routes, usedTables: none })
    expect(spec.sources).toEqual([
      {
        from: '10.1.0.2/32',
        table: 100,
        routes: [
          { ...link4, table: 100 },
          { dst: '0.0.0.0/0', gw: '10.1.0.1', table: 100 },
        ],
      },
      {
        from: 'fd00:1::2/128',
        table: 101,
        routes: [
          { ...link6, table: 101 },
          { dst: '::/0', gw: 'fd00:1::1', table: 101 },
        ],
      },
    ])
    expect(spec.moved).toEqual(routes)
  })

  it('takes tables from 100 on that nothing uses, and none of the kernel', () => {
    const usedTables = new Set([100, 102, ...Array.from({ length: 149 }, (_, at) => at + 104)])
    const ips = [ip4, ip6, { address: '10.2.0.2/24' }]
    const tables = sbrOf(conf, { ips, routes: [], usedTables }).sources.map((source) => source.table)
    expect(tables).toEqual([101, 103, 256])
  })

  it('lets a gateway of the configuration win over the default route', () => {
    const routes = [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }, link4]
    const fixed = { ...conf, gateways: ['10.1.0.9', 'fd00:1::9'] }
    const spec = sbrOf(fixed, { ips: [ip4], routes, usedTables: none })
    expect(spec.sources[0]?.routes.filter((route) => route.dst === '0.0.0.0/0')).toEqual([
      { dst: '0.0.0.0/0', gw: '10.1.0.9', table: 100 },
    ])
  })

  it('with table makes rules only', () => {
    const spec = sbrOf({ ...conf, table: 7 }, { ips: [ip4], routes: [link4], usedTables: none })
    expect(spec).toEqual({ sources: [{ from: '10.1.0.2/32', table: 7, routes: [] }], moved: [] })
  })

  it('leaves routes of other subnets, and with addSourceHints those of its own, in the main table', () => {
    const other = { dst: '192.0.2.0/24', gw: '10.9.0.1' }
    const routes = [link4, other, { dst: '0.0.0.0/0', gw: '10.1.0.1' }]
    expect(sbrOf(conf, { ips: [ip4], routes, usedTables: none }).moved).not.toContain(other)
    const hinted = { ...conf, addSourceHints: true }
    expect(sbrOf(hinted, { ips: [ip4], routes, usedTables: none }).moved).toEqual([routes[2]])
  })
})

describe('an interface of ours', () => {
  const made = {
    connected: subnetRoutes(ip4),
    routes: [{ dst: '192.0.2.0/24', gw: '10.1.0.1' }],
    defaultRoutes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }],
  }
  const around = { ips: [ip4], usedTables: none }

  it('has nothing in the main table', () => {
    const { routes, defaultRoutes, sbr: own } = { sbr: undefined, ...routesBySource(conf, made, around) }
    expect([routes, defaultRoutes]).toEqual([[], []])
    expect(own?.sources[0]?.routes.map((route) => route.dst)).toEqual(['10.1.0.0/24', '192.0.2.0/24', '0.0.0.0/0'])
  })

  it('keeps the route to its subnet with addSourceHints', () => {
    const { routes } = routesBySource({ ...conf, addSourceHints: true }, made, around)
    expect(routes).toEqual([link4])
  })
})

describe('operations', () => {
  const own = sbrOf(conf, { ips: [ip4], routes: [link4], usedTables: none })
  const kinds = (part: 'podRouteOps' | 'undo', chained?: object) =>
    (sbr[part]?.({ ...emptySpec(id, 'bridge'), sbr: own, ...(chained && { chained }) } as never) ?? []).map(
      (op) => op.kind,
    )

  it('add rules after routes; moved routes leave the main table last', () => {
    expect(kinds('podRouteOps')).toEqual(['route.add', 'route.add', 'rule.add', 'route.delete'])
  })

  it('undo takes rules of an interface that goes, and puts routes back where it stays', () => {
    expect(kinds('undo')).toEqual(['rule.delete'])
    expect(kinds('undo', {})).toEqual(['route.add', 'rule.delete', 'route.delete', 'route.delete'])
  })
})
