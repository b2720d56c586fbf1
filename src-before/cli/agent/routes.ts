// SPDX-License-Identifier: Apache-2.0
// The round's routes: reads the main table with this node's addresses and subnets, and makes routes to other nodes.

import { hash } from 'node:crypto'
import { networkInterfaces } from 'node:os'
import { formatAddress, parseAddress } from '../../cni/address.ts'
import { oneLine } from '../../cni/error.ts'
import { openContext } from '../../commands/call/context.ts'
import type { ClusterView } from '../../plan/agent/cluster-view.ts'
import type { Here } from '../../plan/agent/node-addresses.ts'
import type { Problem } from '../../plan/agent/problem.ts'
import {
  hereByRoutes,
  type NodeRoute,
  planRoutes,
  type RouteChange,
  type RouteFacts,
  type RoutePlan,
  routesAfter,
  wayOf,
} from '../../plan/agent/routes.ts'
import { requireSeen } from '../../system/kernel/observe.ts'
import type { Run } from '../../system/process/runner.ts'
import { readNodeRoutes, refusedRoutes, routeBatch, routeQueries } from '../../tools/node-routes.ts'
import { textIfThere } from '../node/if-there.ts'
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
export type RouteRules = Pick<RouteFacts, 'isRouted' | 'allowOverlap' | 'isFromMemory'>

type RoutedView = Pick<ClusterView, 'peers' | 'pods'>

/** A bound, because a peer has few addresses and each try takes a process. */
const mostTries = 4

/** Makes the routes of the view. Returns obstacles, and the kernel's refusals. */
export async function settleRoutes(
  input: RoutesInput,
  view: RoutedView,
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
function planNow({ known }: RoutesInput, view: RoutedView, table: RouteRules & Pick<RouteFacts, 'routes'>): RoutePlan {
  const { peers, pods } = view
  const { routes, isRouted, allowOverlap, isFromMemory = false } = table
  const planWith = (refused: ReadonlySet<string>) =>
    madeFrom(known.plan, [view, routes, isRouted, allowOverlap, isFromMemory, refused], () =>
      planRoutes({ peers, pods, ...table, refused }),
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

// The agent's routes in the kernel: one process to read them, one to change them.

/** The main table of both families. `digest`: of the output of `ip`. */
export interface LookedRoutes {
  readonly digest: string
  readonly routes: readonly NodeRoute[]
}

/**
 * Reads the main table. Returns `before` for equal output, since with thousands of nodes a parse takes a megabyte.
 * Throws CniError 100 when `ip` fails.
 */
export async function lookAtRoutes(run: Run, before?: LookedRoutes): Promise<LookedRoutes> {
  const output = await run({ file: 'ip', args: ['-N', '-j', '-batch', '-'], stdin: routeQueries })
  requireSeen(output, 'ip')
  const digest = hash('sha256', output.stdout)
  return digest === before?.digest ? before : { digest, routes: readNodeRoutes(output.stdout) }
}

/**
 * Makes all changes, independent of each other's failures. Returns refused changes; a missing route counts as removed.
 * Throws CniError 100 when `ip` fails as a whole.
 */
export async function changeRoutes(run: Run, changes: readonly RouteChange[]): Promise<readonly RefusedRoute[]> {
  if (changes.length === 0) return []
  const output = await run({ file: 'ip', args: ['-force', '-batch', '-'], stdin: routeBatch(changes) })
  const refused = refusedRoutes(changes, output.stderr)
  // Without a refusal a failure is of `ip` itself, which was killed or is missing.
  if (refused.length === 0) requireSeen(output, 'ip')
  return refused.filter(([{ verb }, refusal]) => verb !== 'del' || !/No such process/.test(refusal))
}

/** A change, and the kernel's text of the refusal. */
type RefusedRoute = readonly [RouteChange, string]

/** The problem that reports a refusal. `self`: this node's name. */
export function refusalOf(self: string, [{ why }, refusal]: RefusedRoute): Problem {
  return { id: 'RouteRefused', node: self, text: `could not ${why}: ${oneLine(refusal)}` }
}

/**
 * This node's canonical addresses without link-local ones: IPv6 from proc_net(5), if_inet6 (the fourth column is the
 * scope); IPv4 of links with a carrier, since routes have the others.
 */
function ownAddresses(): readonly string[] {
  const lines = textIfThere('/proc/net/if_inet6')
    .split('\n')
    .map((line) => line.split(/ +/))
  const of6 = lines.flatMap(([digits = '', , , scope]) => {
    const address = scope === '00' ? parseAddress(digits.replace(/(....)(?=.)/g, '$1:')) : undefined
    return address === undefined ? [] : formatAddress(address)
  })
  const all = Object.values(networkInterfaces()).flatMap((found) => found ?? [])
  const of4 = all.filter(({ family }) => family === 'IPv4').map(({ address }) => address)
  return [...new Set([...of4, ...of6])]
}

// Reuses a value of the last round while its inputs are unchanged, as nearly all are while the agent rests.

/** A value with its inputs. */
export interface Made<T> {
  readonly from: readonly unknown[]
  readonly value: T
}

/**
 * The value of `make` for the inputs `from`; `before` if each input is the same object, text or number as then. `make`
 * must depend on `from` alone.
 */
export function madeFrom<T>(before: Made<T> | undefined, from: readonly unknown[], make: () => T): Made<T> {
  const isSame = before?.from.length === from.length && from.every((each, at) => Object.is(each, before.from[at]))
  return isSame ? before : { from, value: make() }
}
