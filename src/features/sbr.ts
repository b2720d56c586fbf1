// SPDX-License-Identifier: Apache-2.0
// Routing by source: what leaves by an address of this interface is routed by a table of its own, so that answers go back
// the way that the question came. Keys as the reference sbr plugin's.

import {
  asPrefix,
  bareAddress,
  bitsOf,
  familyOf,
  formatAddress,
  formatCidr,
  includes,
  networkOf,
  parseAddress,
  parseCidr,
} from '../cni/addresses.ts'
import { configError, quote } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import type { Route } from '../cni/results.ts'
import type { SbrConf } from '../config/network-conf.ts'
import type { RawConfig } from '../config/schema.ts'
import type { AttachmentId, PodAddress, PodRoute, SbrSpec, Spec } from '../drivers/spec.ts'
import { linkScope, type Op } from '../kernel/operation.ts'
import type { Feature } from './feature.ts'

/** Throws CniError 7. */
export function readSbr(raw: RawConfig['sbr']): SbrConf | undefined {
  if (raw === undefined) return undefined
  return {
    ...defined({ table: raw.table }),
    gateways: readGateways(raw.gateways ?? []),
    addSourceHints: raw.addSourceHints ?? false,
  }
}

function readGateways(texts: readonly string[]): readonly string[] {
  const more = { id: 'sbr-gateways', hint: 'use at most one IPv4 and one IPv6 address' }
  const gateways = texts.map((text, index) => {
    const gateway = parseAddress(text)
    if (gateway !== undefined) return formatAddress(gateway)
    throw configError(['sbr', 'gateways', index], `invalid static gateway IP address: ${quote(text)}`, more)
  })
  const [a, b] = gateways
  const path = ['sbr', 'gateways']
  if (gateways.length > 2)
    throw configError(path, 'gateways list cannot contain more than 2 entries (one IPv4, one IPv6)', more)
  if (a !== undefined && b !== undefined && familyOf(a) === familyOf(b))
    throw configError(path, `gateways list contains multiple IPv${familyOf(a)} addresses: ${a} and ${b}`, more)
  return gateways
}

/** Routes of the interface in the main table, and the tables of the pod that hold a route or have a rule. */
export interface Routing {
  readonly ips: readonly PodAddress[]
  readonly routes: readonly PodRoute[]
  readonly usedTables: ReadonlySet<number>
}

/** The first table that the reference takes; 253 to 255 are the kernel's own (linux/rtnetlink.h). */
const firstTable = 100

/**
 * A rule for each address, and a table with the routes that it can use. With `table` in the configuration only rules are
 * made, to a table that is somebody else's.
 */
export function sbrOf(conf: SbrConf, { ips, routes, usedTables }: Routing): SbrSpec {
  const taken = new Set(usedTables)
  const sources = ips.map((ip) => {
    const from = asPrefix(bareAddress(ip.address))
    if (conf.table !== undefined) return { from, table: conf.table, routes: [] }
    let table = firstTable
    while (taken.has(table) || (table >= 253 && table <= 255)) table++
    taken.add(table)
    return { from, table, routes: tableRoutes(ip, conf, routes).map((route) => ({ ...route, table })) }
  })
  const isCopied = (route: PodRoute) => conf.table === undefined && ips.some((ip) => isUsable(route, ip))
  const stays = (route: PodRoute) => conf.addSourceHints && route.gw === undefined
  return { sources, moved: routes.filter((route) => isCopied(route) && !stays(route)) }
}

interface MadeRoutes {
  readonly connected: readonly PodRoute[]
  readonly routes: readonly PodRoute[]
  readonly defaultRoutes: readonly PodRoute[]
}

/** Of an interface of ours: what leaves the main table never gets there. */
export function routesBySource(
  conf: SbrConf | undefined,
  { connected, routes, defaultRoutes }: MadeRoutes,
  of: Omit<Routing, 'routes'>,
): Pick<Spec, 'routes' | 'defaultRoutes' | 'sbr'> {
  if (conf === undefined) return { routes, defaultRoutes }
  const inMain = [...connected, ...routes].filter((route) => route.table === undefined)
  const sbr = sbrOf(conf, { ...of, routes: [...inMain, ...defaultRoutes] })
  if (conf.table !== undefined) return { routes, defaultRoutes, sbr }
  const stays = (route: PodRoute) => !sbr.moved.includes(route)
  const elsewhere = routes.filter((route) => route.table !== undefined)
  return {
    routes: [...inMain.filter(stays), ...elsewhere],
    defaultRoutes: defaultRoutes.filter(stays),
    sbr: { ...sbr, moved: [] },
  }
}

/** The route to an address's own subnet, as the kernel would add it; none for a single address. */
export function subnetRoutes({ address }: PodAddress): readonly PodRoute[] {
  const cidr = parseCidr(address)
  if (cidr === undefined || cidr.prefixLength === bitsOf(cidr.family)) return []
  const dst = formatCidr(networkOf(cidr))
  // The kernel takes an IPv6 source only after duplicate address detection (net/ipv6/route.c).
  return [cidr.family === 4 ? { dst, scope: linkScope, src: bareAddress(address) } : { dst }]
}

export function isDefault({ dst }: Pick<Route, 'dst'>): boolean {
  return dst === '0.0.0.0/0' || dst === '::/0'
}

/** A gateway of the configuration wins over the main table's default route. */
function tableRoutes(ip: PodAddress, conf: SbrConf, routes: readonly PodRoute[]): readonly PodRoute[] {
  const family = familyOf(ip.address)
  const fixed = conf.gateways.find((gateway) => familyOf(gateway) === family)
  const usable = routes.filter((route) => isUsable(route, ip) && !(fixed !== undefined && isDefault(route)))
  const gw = fixed ?? (usable.some(isDefault) ? undefined : ip.gateway)
  const added = gw === undefined ? [] : [{ dst: family === 6 ? '::/0' : '0.0.0.0/0', gw }]
  return gatewaysLast([...usable, ...added])
}

/** The kernel looks a gateway up when a route is added: routes without one come first. */
function gatewaysLast(routes: readonly PodRoute[]): readonly PodRoute[] {
  return [...routes.filter(({ gw }) => gw === undefined), ...routes.filter(({ gw }) => gw !== undefined)]
}

/** The reference's rule: source or gateway in the address's subnet, or neither given. */
function isUsable(route: PodRoute, ip: PodAddress): boolean {
  const subnet = parseCidr(ip.address)
  if (subnet === undefined || familyOf(route.dst) !== familyOf(ip.address)) return false
  const given = [route.src, route.gw].filter((text) => text !== undefined)
  if (given.length === 0) return true
  return given.some((text) => {
    const address = parseAddress(text)
    return text === ip.gateway || (address !== undefined && includes(subnet, address))
  })
}

type RouteChange =
  | { readonly kind: 'route.add'; readonly how: 'append' | 'add'; readonly tolerate?: 'exists' }
  | { readonly kind: 'route.delete'; readonly tolerate?: 'absent' }

function routeOps(id: AttachmentId, routes: readonly PodRoute[], verb: string, change: RouteChange): readonly Op[] {
  return routes.map((route) => {
    const via = route.gw === undefined ? '' : ` via ${route.gw}`
    const why = `${verb} the route to ${route.dst}${via} in table ${route.table ?? 'main'}`
    return { place: 'pod', dev: id.ifName, route, why, ...change }
  })
}

function ruleOps({ sources }: SbrSpec, kind: 'rule.add' | 'rule.delete'): readonly Op[] {
  const verb = kind === 'rule.add' ? 'route' : 'stop routing'
  return sources.map(({ from, table }) => {
    const why = `${verb} what comes from ${from} by table ${table}`
    return { place: 'pod', kind, from, table, why, ...(kind === 'rule.add' ? {} : { tolerate: 'absent' }) }
  })
}

export const sbr: Feature = {
  // Rules last: a packet must not meet an empty table. Moved routes leave the main table when they are in their own.
  podRouteOps: ({ id, sbr: own }) => {
    if (own === undefined) return []
    const inTables = own.sources.flatMap(({ routes }) => routes)
    return [
      ...routeOps(id, inTables, 'add', { kind: 'route.add', how: 'append' }),
      ...ruleOps(own, 'rule.add'),
      ...routeOps(id, own.moved, 'remove', { kind: 'route.delete' }),
    ]
  },
  // Rules outlive the interface. On one that is not ours the routes go back.
  undo: ({ id, sbr: own, chained }) => {
    if (own === undefined) return []
    if (chained === undefined) return ruleOps(own, 'rule.delete')
    const inTables = own.sources.flatMap(({ routes }) => routes).toReversed()
    return [
      ...routeOps(id, gatewaysLast(own.moved), 'put back', { kind: 'route.add', how: 'add', tolerate: 'exists' }),
      ...ruleOps(own, 'rule.delete'),
      ...routeOps(id, inTables, 'remove', { kind: 'route.delete', tolerate: 'absent' }),
    ]
  },
}
