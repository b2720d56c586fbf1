// SPDX-License-Identifier: Apache-2.0
// What the agent knows of the routing table without a look: its own changes, and the kernel's word of them.

import { describe, expect, it } from 'vitest'
import {
  isEcho,
  type NodeRoute,
  planRoutes,
  type RouteChange,
  routesAfter,
} from '../../../../src-before/plan/agent/routes.ts'
import { routeBatch } from '../../../../src-before/tools/node-routes.ts'

const subnet: NodeRoute = { dst: '192.0.2.0/24', type: 'unicast', dev: 'eth0', metric: 0, protocol: 2 }
const foreign: NodeRoute = {
  dst: '10.0.3.0/24',
  type: 'unicast',
  gateway: '192.0.2.9',
  dev: 'eth0',
  metric: 200,
  protocol: 3,
}
const peer = (at: number, address: string) => ({ name: `n${at}`, ranges: [`10.0.${at}.0/24`], addresses: [address] })
const facts = (routes: readonly NodeRoute[], peers: readonly ReturnType<typeof peer>[]) => {
  return {
    peers,
    pods: ['10.0.1.0/24'],
    routes,
    isRouted: true,
    allowOverlap: false,
    refused: new Set<string>(),
  }
}

describe('routesAfter', () => {
  it('is the table in which nothing is left to do, with the routes of others as they were', () => {
    let routes: readonly NodeRoute[] = [subnet, foreign]
    for (const peers of [
      [peer(2, '192.0.2.2'), peer(3, '192.0.2.3')],
      [peer(2, '192.0.2.22'), peer(3, '192.0.2.3')],
      [peer(3, '192.0.2.3')],
    ]) {
      const { changes } = planRoutes(facts(routes, peers))
      expect(changes.length).toBeGreaterThan(0)
      routes = routesAfter(routes, changes)
      expect(planRoutes(facts(routes, peers)).changes).toEqual([])
      expect(routes.filter(({ protocol }) => protocol !== 116)).toEqual([subnet, foreign])
    }
  })
})

it('a route of the agent with another metric goes by that metric, and the right one beside it stays', () => {
  const peers = [peer(2, '192.0.2.2')]
  const right = routesAfter([subnet], planRoutes(facts([subnet], peers)).changes)
  const stray: NodeRoute = { ...(right[1] as NodeRoute), metric: 50 }
  const { changes } = planRoutes(facts([...right, stray], peers))
  expect(routeBatch(changes)).toBe('route del 10.0.2.0/24 via 192.0.2.2 dev eth0 metric 50 proto 116\n')
  expect(routesAfter([...right, stray], changes)).toEqual(right)
})

describe('isEcho', () => {
  const changes: readonly RouteChange[] = [
    { verb: 'replace', dst: '10.0.2.0/24', gateway: '192.0.2.2', dev: 'eth0', why: '' },
    { verb: 'replace', dst: 'fd00:1::/64', why: '' },
  ]
  const table = routesAfter([subnet], changes)
  it.each([
    ['10.0.2.0/24 via 192.0.2.2 dev eth0 proto 116 metric 116 ', true],
    ['10.0.2.0/24 via 192.0.2.3 dev eth0 proto 116 metric 116 ', false],
    ['Deleted 10.0.2.0/24 via 192.0.2.2 dev eth0 proto 116 metric 116 ', false],
    ['Deleted 10.0.2.0/24 via 192.0.2.3 dev eth0 proto 116 metric 116 ', true],
    ['Deleted 10.0.9.0/24 via 192.0.2.9 dev eth0 proto 116 metric 116 ', true],
    ['10.0.2.0/24 via 192.0.2.2 dev eth0 proto static metric 116 ', false],
    ['unreachable fd00:1::/64 dev lo proto 116 metric 116 pref medium', true],
    ['Deleted unreachable fd00:1::/64 dev lo proto 116 metric 116 pref medium', false],
    ['default via 192.0.2.1 dev eth0 ', false],
    ['', false],
  ])('%s: %s', (line, echo) => {
    expect(isEcho(line, table)).toBe(echo)
    expect(isEcho(line, undefined)).toBe(false)
  })
})
