// SPDX-License-Identifier: Apache-2.0
// Source-based routing: what leaves by an address of this interface is routed by a table of its own, so that
// answers go back the way the question came (docs/design.md, "Upstream sbr").

import type * as z from 'zod/mini'
import {
  type Address,
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
} from '../cni/address.ts'
import { configError, quote } from '../cni/error.ts'
import { flag, group, integer, texts, UINT32_MAX } from '../cni/fields.ts'
import { defined } from '../cni/json.ts'
import type { Route } from '../cni/result.ts'
import type { PodAddress, PodRoute, SbrSpec } from '../model/attachment.ts'
import type { ObservedNamespace } from '../model/observed.ts'
import { linkScope, type Op } from '../model/op.ts'
import { type Feature, onPodLink } from './feature.ts'

export const sbrKeys = group({
  table: integer(1, UINT32_MAX, 'a routing table'),
  gateways: texts,
  addSourceHints: flag,
})

export interface SbrConf {
  readonly table?: number
  readonly gateways: readonly string[]
  readonly addSourceHints: boolean
}

/** The first table that upstream takes. */
const firstTable = 100

/** Routes as they would be without sbr, and what sbr makes of them. */
interface Routing {
  readonly conf: SbrConf
  readonly ips: readonly PodAddress[]
  /** Routes of the interface in the main table, those to its subnets included. */
  readonly routes: readonly PodRoute[]
  /** Tables of the pod that hold a route or have a rule. */
  readonly usedTables: ReadonlySet<number>
}

export function tablesInUse({ routes, rules = [] }: ObservedNamespace): ReadonlySet<number> {
  return new Set([...routes.keys(), ...rules.map((rule) => rule.table)])
}

/**
 * A rule for each address, and a table with the routes of its family that it can use. With `table` in the
 * configuration only rules are made, to a table that is somebody else's. `moved`: what leaves the main table.
 */
export function sbrSpec(routing: Routing): SbrSpec {
  const { conf, ips, routes } = routing
  const { table } = conf
  if (table !== undefined) {
    return {
      sources: ips.map(({ address }) => ({ from: asPrefix(bareAddress(address)), table, routes: [] })),
      moved: [],
    }
  }
  const tables = freeTables(ips.length, routing.usedTables)
  const sources = ips.map((ip, at) => {
    const table = tables[at] ?? firstTable
    return {
      from: asPrefix(bareAddress(ip.address)),
      table,
      routes: tableRoutes(ip, routing).map((route) => ({ ...route, table })),
    }
  })
  const isCopied = (route: PodRoute) => ips.some((ip) => isUsable(route, ip))
  const stays = (route: PodRoute) => conf.addSourceHints && route.gw === undefined
  return { sources, moved: routes.filter((route) => isCopied(route) && !stays(route)) }
}

/**
 * An interface of ours: what sbr takes out of the main table never gets there. `links`: the routes to the subnets of
 * `ips`, which the kernel then does not add.
 */
export function routedBySource<
  T extends { readonly routes: readonly PodRoute[]; readonly defaultRoutes: readonly Route[] },
>(
  conf: SbrConf | undefined,
  made: T,
  routing: Pick<Routing, 'ips' | 'usedTables'> & { readonly links: readonly PodRoute[] },
): T & { readonly sbr?: SbrSpec } {
  if (conf === undefined) return made
  const { ips, usedTables, links } = routing
  const inMain = [...links, ...made.routes].filter((route) => route.table === undefined)
  const sbr = sbrSpec({ conf, ips, usedTables, routes: [...inMain, ...made.defaultRoutes] })
  if (conf.table !== undefined) return { ...made, sbr }
  const stays = (route: PodRoute) => !sbr.moved.includes(route)
  const elsewhere = made.routes.filter((route) => route.table !== undefined)
  return {
    ...made,
    routes: [...inMain.filter(stays), ...elsewhere],
    defaultRoutes: made.defaultRoutes.filter(stays),
    sbr: { ...sbr, moved: [] },
  }
}

/** The route to an address's own subnet, as the kernel adds it; none for a host address. */
export function subnetRoutes({ address }: PodAddress): readonly PodRoute[] {
  const cidr = parseCidr(address)
  if (cidr === undefined || cidr.prefixLength === bitsOf(cidr.family)) return []
  const dst = formatCidr(networkOf(cidr))
  // With an IPv6 source the kernel wants the address to have passed DAD (net/ipv6/route.c).
  return [cidr.family === 4 ? { dst, scope: linkScope, src: bareAddress(address) } : { dst }]
}

/** Routes and rules: rules last, a packet must not meet an empty table. */
export function sbrOps(spec: SbrSpec, dev: string): readonly Op[] {
  const routes = spec.sources.flatMap((source) => source.routes)
  return [...routes.map((route) => addRoute(route, dev)), ...ruleOps(spec, 'rule.add')]
}

/** Chained: the interface's routes leave the main table once they are in their own. */
function moveOps(spec: SbrSpec, dev: string): readonly Op[] {
  return spec.moved.map((route) => deleteRoute(route, dev))
}

/** Rules outlive the interface, so they go by name; moved routes go back, for the case that the interface stays. */
export function sbrTeardownOps(spec: SbrSpec, dev: string, isOurs: boolean): readonly Op[] {
  const rules = ruleOps(spec, 'rule.del')
  if (isOurs) return rules
  const ownRoutes = spec.sources.flatMap((source) => source.routes).toReversed()
  return [
    ...ordered(spec.moved).map((route) => addRoute(route, dev, true)),
    ...rules,
    ...ownRoutes.map((route) => deleteRoute(route, dev)),
  ]
}

function ruleOps(spec: SbrSpec, kind: 'rule.add' | 'rule.del'): readonly Op[] {
  const verb = kind === 'rule.add' ? 'route' : 'stop routing'
  return spec.sources.map(({ from, table }) => ({
    in: 'pod',
    kind,
    from,
    table,
    why: `${verb} what comes from ${from} by table ${table}`,
  }))
}

function addRoute(route: PodRoute, dev: string, onlyIfNone = false): Op {
  return { in: 'pod', kind: 'route.add', dev, route, onlyIfNone, why: `add the route to ${describe(route)}` }
}

function deleteRoute(route: PodRoute, dev: string): Op {
  return { in: 'pod', kind: 'route.del', dev, route, why: `remove the route to ${describe(route)}` }
}

function describe({ dst, gw, table }: PodRoute): string {
  return `${dst}${gw === undefined ? '' : ` via ${gw}`} in table ${table ?? 'main'}`
}

/** A gateway of the configuration wins over the main table's default route. */
function tableRoutes(ip: PodAddress, { conf, routes }: Routing): readonly PodRoute[] {
  const family = familyOf(ip.address)
  const fixed = conf.gateways.find((gateway) => familyOf(gateway) === family)
  const usable = routes.filter((route) => isUsable(route, ip) && !(fixed !== undefined && isDefault(route)))
  const gw = fixed ?? (usable.some(isDefault) ? undefined : ip.gateway)
  const added: readonly PodRoute[] = gw === undefined ? [] : [{ dst: family === 6 ? '::/0' : '0.0.0.0/0', gw }]
  return ordered([...usable, ...added])
}

/** Gateways are looked up when a route is added: what needs none comes first. */
function ordered(routes: readonly PodRoute[]): readonly PodRoute[] {
  return [...routes.filter((route) => route.gw === undefined), ...routes.filter((route) => route.gw !== undefined)]
}

/** Upstream's rule: source or gateway in the address's subnet, or neither given. */
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

export function isDefault({ dst }: Route): boolean {
  return dst === '0.0.0.0/0' || dst === '::/0'
}

function freeTables(count: number, used: ReadonlySet<number>): readonly number[] {
  const tables: number[] = []
  for (let table = firstTable; tables.length < count; table++) {
    // 253 to 255 are the kernel's own (linux/rtnetlink.h).
    if (!used.has(table) && (table < 253 || table > 255)) tables.push(table)
  }
  return tables
}

export const sbr: Feature = {
  podRouteOps: (spec) =>
    onPodLink(spec, spec.sbr, (routing, dev) => [...sbrOps(routing, dev), ...moveOps(routing, dev)]),
  podTeardownOps: (spec) =>
    onPodLink(spec, spec.sbr, (routing, dev) => sbrTeardownOps(routing, dev, spec.chained === undefined)),
}

function readGateways(texts: readonly string[]): readonly string[] {
  const path = ['sbr', 'gateways']
  const more = { id: 'sbr-gateways', hint: 'use at most one IPv4 and one IPv6 address' } as const
  if (texts.length > 2)
    throw configError(path, 'gateways list cannot contain more than 2 entries (one IPv4, one IPv6)', more)
  const gateways = texts.map((text, index): Address => {
    const gateway = parseAddress(text)
    if (gateway !== undefined) return gateway
    throw configError([...path, index], `invalid static gateway IP address: ${quote(text)}`, more)
  })
  const [a, b] = gateways
  if (a !== undefined && b !== undefined && a.family === b.family) {
    const both = `${formatAddress(a)} and ${formatAddress(b)}`
    throw configError(path, `gateways list contains multiple IPv${a.family} addresses: ${both}`, more)
  }
  return gateways.map(formatAddress)
}

export function readSbr(raw: z.output<typeof sbrKeys> | undefined): SbrConf | undefined {
  if (raw === undefined) return undefined
  return {
    ...defined({ table: raw.table }),
    gateways: readGateways(raw.gateways ?? []),
    addSourceHints: raw.addSourceHints ?? false,
  }
}
