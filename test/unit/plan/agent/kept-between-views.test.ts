// SPDX-License-Identifier: Apache-2.0
// What is kept from one view to the next, so that a node's change costs one node: the outcome is that of a view from
// nothing, whatever changed.

import { expect, it } from 'vitest'
import type { ClusterNode } from '../../../../src-before/plan/agent/cluster-node.ts'
import { clusterView, type Peer } from '../../../../src-before/plan/agent/cluster-view.ts'
import { hereByRoutes, type NodeRoute, planRoutes, routesAfter } from '../../../../src-before/plan/agent/routes.ts'

const node = (name: string, podCidrs: readonly string[], addresses: readonly string[]): ClusterNode => {
  return { name, uid: name, created: '2026-01-01T00:00:00Z', podCidrs, addresses }
}
const segment: NodeRoute = { dst: '192.0.2.0/24', type: 'unicast', dev: 'up0', metric: 0, protocol: 2 }
const foreign: NodeRoute = { dst: '10.0.3.0/24', type: 'unicast', dev: 'tun0', metric: 0, protocol: 3 }

/** From copies of everything, so that nothing of an earlier view is found again. */
function fromNothing(
  nodes: ReadonlyMap<string, ClusterNode>,
  remembered: readonly Peer[],
  routes: readonly NodeRoute[],
) {
  return look(new Map(structuredClone([...nodes])), structuredClone(remembered), structuredClone(routes))
}

function look(nodes: ReadonlyMap<string, ClusterNode>, remembered: readonly Peer[], routes: readonly NodeRoute[]) {
  const facts = { here: hereByRoutes(routes), bounds: [], allowOverlap: false }
  const view = clusterView({ self: 'a', nodes: [...nodes.values()], remembered, earlierPods: [], ...facts })
  const table = { routes, isRouted: false, allowOverlap: false, refused: new Set<string>() }
  return { view, plan: planRoutes({ peers: view.peers, pods: view.pods, ...table }) }
}

it('is what a view from nothing is, after each of many changes', () => {
  const nodes = new Map(
    ['a', 'b', 'c', 'd'].map((name, at) => [name, node(name, [`10.0.${at}.0/24`], [`192.0.2.${at + 1}`])]),
  )
  const put = (each: ClusterNode) => () => nodes.set(each.name, each)
  let routes: readonly NodeRoute[] = [segment]
  let remembered: readonly Peer[] = []
  const changes: (() => unknown)[] = [
    () => undefined,
    put(node('b', ['10.0.1.0/24'], ['192.0.2.22'])),
    put(node('c', ['10.0.9.0/24'], ['192.0.2.3'])),
    put(node('e', ['10.0.9.0/25'], ['192.0.2.5'])),
    () => nodes.delete('c'),
    put(node('d', ['10.0.3.0/24', 'fd00:3::/64'], ['192.0.2.4', '2001:db8::4'])),
    () => {
      routes = [...routes, foreign]
    },
    () => {
      routes = routes.filter((route) => route !== foreign)
    },
    put(node('a', ['10.0.1.0/24'], ['192.0.2.1'])),
    () => {
      routes = routes.filter(({ dst }) => dst !== segment.dst)
    },
  ]
  let changed = 0
  for (const change of changes) {
    change()
    const { view, plan } = look(nodes, remembered, routes)
    expect({ view, plan }).toEqual(fromNothing(nodes, remembered, routes))
    changed += plan.changes.length + plan.problems.length
    routes = routesAfter(routes, plan.changes)
    remembered = view.peers
  }
  expect(changed).toBeGreaterThan(changes.length)
})
