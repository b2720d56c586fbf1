// SPDX-License-Identifier: Apache-2.0
// The routes of a pod, from what IPAM gave: which have a gateway, and which is the default one.

import { familyOf } from '../cni/address.ts'
import type { Route } from '../cni/route.ts'
import type { PodAddress } from '../model/attachment.ts'
import { linkScope } from '../model/rtnetlink.ts'

/**
 * Routes as they will be installed: a route without gateway takes the first one of its family, but not in IPv4 one of
 * scope link or narrower.
 */
export function podRoutes(
  routes: readonly Route[],
  ips: readonly PodAddress[],
  isDefaultGateway: boolean,
): { routes: readonly Route[]; defaultRoutes: readonly Route[] } {
  const complete = routes.map((route) => throughGateway(withoutZeros(route), ips))
  const wanted = isDefaultGateway ? ips.flatMap(defaultThrough) : []
  // As in the upstream bridge: one with a gateway of its own, in whatever table and metric, is the one meant.
  const named = routes.filter((route) => isDefault(route) && route.gw !== undefined)
  const families = new Set([...complete.filter(isPlainDefault), ...named].map((route) => route.dst))
  const missing = wanted.filter((route) => !families.has(route.dst))
  return {
    routes: distinct(complete.filter((route) => !isPlainDefault(route))),
    // Several of the configuration stay side by side, as in upstream; of the addresses' own gateways the first is
    // taken.
    defaultRoutes: [...distinct(complete.filter(isPlainDefault)), ...firstOfEach(missing)],
  }
}

/** 0 is "not set", as in upstream: the kernel takes table 0 for the main one, and shows none of the others. */
function withoutZeros({ priority, mtu, advmss, table, ...route }: Route): Route {
  return {
    ...route,
    ...(priority ? { priority } : {}),
    ...(mtu ? { mtu } : {}),
    ...(advmss ? { advmss } : {}),
    ...(table ? { table } : {}),
  }
}

function throughGateway(route: Route, ips: readonly PodAddress[]): Route {
  // On the link, the kernel takes no gateway (net/ipv4/fib_semantics.c, fib_check_nh). IPv6 routes have no scope.
  const isOnLink = route.scope !== undefined && route.scope >= linkScope && familyOf(route.dst) === 4
  if (route.gw !== undefined || isOnLink) return route
  const gateway = ips.find((ip) => ip.gateway !== undefined && sameFamily(ip.gateway, route.dst))?.gateway
  return gateway === undefined ? route : { ...route, gw: gateway }
}

function defaultThrough(ip: PodAddress): readonly Route[] {
  if (ip.gateway === undefined) return []
  return [{ dst: familyOf(ip.gateway) === 6 ? '::/0' : '0.0.0.0/0', gw: ip.gateway }]
}

/** A default route in the main table with the default metric; another table or metric is asked for on purpose. */
function isPlainDefault(route: Route): boolean {
  return isDefault(route) && route.table === undefined && route.priority === undefined
}

function isDefault({ dst }: Route): boolean {
  return dst === '0.0.0.0/0' || dst === '::/0'
}

function firstOfEach(routes: readonly Route[]): readonly Route[] {
  return routes.filter((route, at) => routes.findIndex((other) => other.dst === route.dst) === at)
}

function distinct(routes: readonly Route[]): readonly Route[] {
  const seen = new Set<string>()
  return routes.filter((route) => {
    const text = JSON.stringify([route.dst, route.gw, route.priority, route.table])
    return !seen.has(text) && seen.add(text)
  })
}

function sameFamily(a: string, b: string): boolean {
  return familyOf(a) === familyOf(b)
}
