// SPDX-License-Identifier: Apache-2.0
// The main table after changes of our own: known without a look. What `ip monitor` then tells of them is no news.

import { isOwnRoute, type NodeRoute, type RouteChange, routeMetric, routeProtocol } from './node-route.ts'

/** The table when the changes are made. */
export function routesAfter(routes: readonly NodeRoute[], changes: readonly RouteChange[]): readonly NodeRoute[] {
  if (changes.length === 0) return routes
  const changed = new Set(changes.map(({ dst }) => dst))
  const made = changes.filter(({ verb }) => verb === 'replace')
  return [
    ...routes.filter((route) => !isOwnRoute(route) || !changed.has(route.dst)),
    ...made.map(({ dst, gateway, dev }) => ({
      dst,
      type: gateway === undefined ? 'unreachable' : 'unicast',
      ...(gateway === undefined ? {} : { gateway }),
      ...(dev === undefined ? {} : { dev }),
      metric: routeMetric,
      protocol: routeProtocol,
    })),
  ]
}

/** Whether a line of `ip -o monitor route` tells of one of our routes what the table has already. */
export function isEcho(line: string, routes: readonly NodeRoute[] | undefined): boolean {
  const [, deleted, type, dst] = /^(Deleted )?(unreachable )?(\S+\/\d+) .*\bproto 116\b/.exec(line) ?? []
  if (routes === undefined || dst === undefined) return false
  const gateway = /\bvia (\S+)/.exec(line)?.[1]
  const isThere = routes.some(
    (route) =>
      route.dst === dst &&
      isOwnRoute(route) &&
      route.gateway === gateway &&
      (type !== undefined) === (gateway === undefined),
  )
  return isThere === (deleted === undefined)
}
