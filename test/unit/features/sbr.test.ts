// SPDX-License-Identifier: Apache-2.0
// Source-based routing as data: which tables, which routes go where, and what is taken back.

import { describe, expect, it } from 'vitest'
import {
  routedBySource,
  sbrOps,
  sbrSpec,
  sbrTeardownOps,
  subnetRoutes,
  tablesInUse,
} from '../../../src-before/features/sbr.ts'

const conf = { gateways: [], addSourceHints: false }
const ip4 = { address: '10.1.0.2/24', gateway: '10.1.0.1' }
const ip6 = { address: 'fd00:1::2/64', gateway: 'fd00:1::1' }
const link4 = { dst: '10.1.0.0/24', scope: 253, src: '10.1.0.2' }
const link6 = { dst: 'fd00:1::/64', priority: 256 }
const none = new Set<number>()

describe('sbrSpec', () => {
  it('gives each address a table with the routes of its family, links before gateways', () => {
    const routes = [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }, link4, link6]
    const spec = sbrSpec({ conf, ips: [ip4, ip6], routes, usedTables: none })
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
    const tables = sbrSpec({ conf, ips, routes: [], usedTables }).sources.map((source) => source.table)
    expect(tables).toEqual([101, 103, 256])
  })

  it('lets a gateway of the configuration win over the default route', () => {
    const routes = [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }, link4]
    const fixed = { ...conf, gateways: ['10.1.0.9', 'fd00:1::9'] }
    const spec = sbrSpec({ conf: fixed, ips: [ip4], routes, usedTables: none })
    expect(spec.sources[0]?.routes.filter((route) => route.dst === '0.0.0.0/0')).toEqual([
      { dst: '0.0.0.0/0', gw: '10.1.0.9', table: 100 },
    ])
  })

  it('with table makes rules only', () => {
    const spec = sbrSpec({ conf: { ...conf, table: 7 }, ips: [ip4], routes: [link4], usedTables: none })
    expect(spec).toEqual({ sources: [{ from: '10.1.0.2/32', table: 7, routes: [] }], moved: [] })
  })

  it('leaves routes of other subnets, and with addSourceHints those of its own, in the main table', () => {
    const other = { dst: '192.0.2.0/24', gw: '10.9.0.1' }
    const routes = [link4, other, { dst: '0.0.0.0/0', gw: '10.1.0.1' }]
    expect(sbrSpec({ conf, ips: [ip4], routes, usedTables: none }).moved).not.toContain(other)
    const hinted = { ...conf, addSourceHints: true }
    expect(sbrSpec({ conf: hinted, ips: [ip4], routes, usedTables: none }).moved).toEqual([routes[2]])
  })
})

describe('an interface of ours', () => {
  const made = {
    routes: [{ dst: '192.0.2.0/24', gw: '10.1.0.1' }],
    defaultRoutes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }],
  }
  const around = { ips: [ip4], usedTables: none, links: subnetRoutes(ip4) }

  it('is left alone without sbr', () => {
    expect(routedBySource(undefined, made, around)).toBe(made)
  })

  it('has nothing in the main table', () => {
    const { routes, defaultRoutes, sbr } = routedBySource(conf, made, around)
    expect([routes, defaultRoutes]).toEqual([[], []])
    expect(sbr?.sources[0]?.routes.map((route) => route.dst)).toEqual(['10.1.0.0/24', '192.0.2.0/24', '0.0.0.0/0'])
  })

  it('keeps the route to its subnet with addSourceHints', () => {
    const { routes } = routedBySource({ ...conf, addSourceHints: true }, made, around)
    expect(routes).toEqual([link4])
  })
})

describe('operations', () => {
  const spec = sbrSpec({ conf, ips: [ip4], routes: [link4], usedTables: none })

  it('add rules after routes', () => {
    expect(sbrOps(spec, 'eth1').map((op) => op.kind)).toEqual(['route.add', 'route.add', 'rule.add'])
  })

  it('undo takes rules of an interface that goes, and puts routes back where it stays', () => {
    expect(sbrTeardownOps(spec, 'eth1', true).map((op) => op.kind)).toEqual(['rule.del'])
    const undo = sbrTeardownOps(spec, 'eth1', false)
    expect(undo.map((op) => op.kind)).toEqual(['route.add', 'rule.del', 'route.del', 'route.del'])
    expect(undo[0]).toMatchObject({ route: link4 })
  })
})

it('tables in use have a rule or a route', () => {
  const pod = { links: new Map(), routes: new Map([[103, [{ dst: '0.0.0.0/0' }]]]), rules: [{ from: 'all', table: 7 }] }
  expect([...tablesInUse(pod)].sort((a, b) => a - b)).toEqual([7, 103])
})
