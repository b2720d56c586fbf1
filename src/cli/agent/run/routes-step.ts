// SPDX-License-Identifier: Apache-2.0
// The round's routes: reads the main table with this node's addresses and subnets, and makes routes to other nodes.

import { openContext } from '../../../commands/call/context.ts'
import type { ClusterView } from '../../../plan/agent/cluster-view.ts'
import type { Here } from '../../../plan/agent/node-addresses.ts'
import type { NodeRoute, RouteChange } from '../../../plan/agent/node-route.ts'
import type { Problem } from '../../../plan/agent/problem.ts'
import { hereByRoutes, planRoutes, type RouteFacts, type RoutePlan, wayOf } from '../../../plan/agent/routes.ts'
import { routesAfter } from '../../../plan/agent/routes-after.ts'
import { changeRoutes, lookAtRoutes, ownAddresses, type RefusedRoute, refusalOf } from '../node/routes.ts'
import { madeFrom } from './made.ts'
import type { RoundInput } from './round.ts'

type RoutesInput = Pick<RoundInput, 'settings' | 'known' | 'signal' | 'log' | 'metrics'>

/** Reads the main table if it is unknown. Throws CniError 100 when `ip` fails. */
export async function lookForRoutes({ known, signal }: RoutesInput): Promise<void> {
  if (known.routes === undefined) known.looked = await lookAtRoutes(openContext(signal).run, known.looked)
}

/** Addresses and subnets of this node. */
export function lookHere({ known }: Pick<RoundInput, 'known'>): Here {
  const routes = routesNow(known)
  known.here = madeFrom(known.here, [routes], () => hereByRoutes(routes))
  const { addresses, subnets } = known.here.value
  return { addresses: [...new Set([...addresses, ...ownAddresses()])].sort(), subnets }
}

function routesNow({ routes, looked }: RoundInput['known']): readonly NodeRoute[] {
  return routes ?? looked?.routes ?? []
}

/** Inputs of the routes besides the cluster. */
export type RouteRules = Pick<RouteFacts, 'isRouted' | 'allowOverlap'>

/** A bound, because a peer has few addresses and each try takes a process. */
const mostTries = 4

/** Makes the routes of the view. Returns obstacles, and the kernel's refusals. */
export async function settleRoutes(
  input: RoutesInput,
  view: ClusterView,
  rules: RouteRules,
): Promise<readonly Problem[]> {
  const { settings, known } = input
  let routes = routesNow(known)
  for (let tries = 1; ; tries++) {
    const plan = planNow(input, view, { ...rules, routes })
    input.metrics.routes.set(plan.wanted)
    // Set before the changes, because the kernel reports the first change before the last one is made.
    known.routes = routesAfter(routes, plan.changes)
    const refused = await changeRoutes(openContext(input.signal).run, plan.changes)
    const made = withoutRefused(plan.changes, refused)
    tellChanges(input, made)
    if (refused.length === 0) return plan.problems
    known.routes = undefined
    const ways = refused.map(([change]) => wayOf(change))
    const isNews = ways.some((way) => !known.refused?.ways.has(way))
    known.refused = { beside: plan.beside, ways: new Set([...(known.refused?.ways ?? []), ...ways]) }
    // Tries another address of the peer.
    if (!isNews || tries === mostTries)
      return [...plan.problems, ...refused.map((each) => refusalOf(settings.node, each))]
    routes = routesAfter(routes, made)
  }
}

const nothing: ReadonlySet<string> = new Set()

/** Reuses an unchanged plan. A refused route is tried again once routes or links have changed. */
function planNow(
  { settings, known }: RoutesInput,
  view: ClusterView,
  table: RouteRules & Pick<RouteFacts, 'routes'>,
): RoutePlan {
  const { peers, pods } = view
  const { routes, isRouted, allowOverlap } = table
  const planWith = (refused: ReadonlySet<string>) =>
    madeFrom(known.plan, [view, routes, isRouted, allowOverlap, refused], () =>
      planRoutes({ self: settings.node, peers, pods, ...table, refused }),
    )
  known.plan = planWith(known.refused?.ways ?? nothing)
  if (known.refused !== undefined && known.refused.beside !== known.plan.value.beside) {
    known.refused = undefined
    known.plan = planWith(nothing)
  }
  return known.plan.value
}

function withoutRefused(changes: readonly RouteChange[], refused: readonly RefusedRoute[]): readonly RouteChange[] {
  const left = new Set(refused.map(([change]) => change))
  return changes.filter((change) => !left.has(change))
}

function tellChanges({ log, metrics }: RoutesInput, made: readonly RouteChange[]): void {
  if (made.length === 0) return
  metrics.routeChanges.inc(made.length)
  log('info', 'routes changed', { changes: made.slice(0, 20).map(({ why }) => why), count: made.length })
}
