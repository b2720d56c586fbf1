// SPDX-License-Identifier: Apache-2.0
// Which routes lead to the pods of other nodes, and what has to change for it. Only the agent's own routes are changed.

import { type Address, type Cidr, includes, overlaps, parseAddress, parseCidr } from '../../cni/address.ts'
import { isPodLinkName } from '../../model/names.ts'
import type { Peer } from './cluster-view.ts'
import type { Here, Subnet } from './node-addresses.ts'
import type { Problem, ProblemId } from './problem.ts'

/**
 * `routes`: the main table of both families. `isRouted`: pods have links of their own, no bridge (mode ptp).
 * `allowOverlap`: a range may overlap a subnet of this node. `refused`: routes that the kernel has refused (`wayOf`).
 * `isFromMemory`: the peers are of an earlier view, so that no route that is there is changed.
 */
export interface RouteFacts {
  readonly peers: readonly Peer[]
  readonly pods: readonly string[]
  readonly routes: readonly NodeRoute[]
  readonly isRouted: boolean
  readonly allowOverlap: boolean
  readonly isFromMemory?: boolean
  readonly refused: ReadonlySet<string>
}

/** `wanted`: routes that are to be there when all changes are made. `beside`: the table without the agent's own routes. */
export interface RoutePlan {
  readonly changes: readonly RouteChange[]
  readonly wanted: number
  readonly problems: readonly Problem[]
  readonly beside: string
}

/** A route as the kernel refuses it: its destination and gateway. */
export function wayOf({ dst, gateway = '' }: Pick<RouteChange, 'dst' | 'gateway'>): string {
  return `${dst} ${gateway}`
}

/** A route that should be: to a peer's range by its address, or an unreachable one to what is our own. */
interface Wanted {
  readonly dst: string
  readonly gateway?: string
  readonly dev?: string
}

interface Table {
  readonly own: readonly NodeRoute[]
  readonly foreign: ReadonlyMap<string, readonly NodeRoute[]>
  /** Of `foreign`, without those to the node's own pods. */
  readonly beyond: readonly (NodeRoute & { readonly cidr: Cidr })[]
  readonly refused: ReadonlySet<string>
  readonly beside: string
  readonly text: string
}

/** The difference between the routes that are wanted and those that are there. */
export function planRoutes(facts: RouteFacts): RoutePlan {
  const table = tableOf(facts)
  const routed = facts.peers.map((peer) => knownRoutesTo(peer, table))
  const wanted = [
    ...routed.flatMap((each) => each.wanted),
    ...(facts.isRouted ? facts.pods.filter((range) => !cutsOff(range, facts)).map((dst) => ({ dst })) : []),
  ]
  const there = new Set(table.own.map(({ dst }) => dst))
  const missing = wanted.filter(({ dst }) => !there.has(dst))
  const changes = facts.isFromMemory
    ? additions([], missing)
    : [...removals(table.own, wanted), ...additions(table.own, wanted)]
  const problems = routed.flatMap((each) => each.problems)
  return { changes, wanted: wanted.length, problems, beside: table.beside }
}

function tableOf({ routes, pods, refused }: RouteFacts): Table {
  const own = routes.filter(isOwnRoute)
  const foreign = routes
    .filter((route) => !isOwnRoute(route))
    .flatMap((route) => {
      const cidr = parseCidr(route.dst)
      return cidr === undefined ? [] : [{ ...route, cidr }]
    })
  const beyond = foreign.filter(({ dev }) => !isOfPods(dev))
  const beside = JSON.stringify([pods, foreign.map(({ cidr: _, ...route }) => route)])
  return {
    own,
    foreign: Map.groupBy(foreign, ({ dst }) => dst),
    beyond,
    refused,
    beside,
    text: JSON.stringify([beside, ...refused]),
  }
}

/** What the routes tell of this node's links: addresses of IPv4, and the subnets of both families. */
export function hereByRoutes(routes: readonly NodeRoute[]): Here {
  const subnets = routes.flatMap(({ dst, dev, gateway, type, protocol }): readonly Subnet[] => {
    const isSubnet = type === 'unicast' && gateway === undefined && !/^fe80:|\/(0|32|128)$/.test(dst)
    return dev === undefined || !isSubnet || isOfPods(dev) ? [] : [{ dst, dev, isOfLink: linkProtocols.has(protocol) }]
  })
  const byText = new Map(subnets.map((subnet) => [JSON.stringify(subnet), subnet]))
  return {
    addresses: [...new Set(routes.flatMap(({ source }) => source ?? []))],
    subnets: [...byText.values()],
  }
}

/** RTPROT_KERNEL, and RTPROT_RA for prefixes that routers advertise (rtnetlink(7)). */
const linkProtocols: ReadonlySet<number> = new Set([2, 9])

/** Whether the link is a bridge, the VLAN of a gateway there, or a pod's link, by the names that trestle gives. */
function isOfPods(dev: string | undefined): boolean {
  return dev !== undefined && (/^cni\d+(?:\.\d+)?$/.test(dev) || isPodLinkName(dev))
}

/**
 * Whether an unreachable route to the own range would win over the route to a subnet of this node. A range inside a
 * larger subnet is the pods' alone where `allowOverlap` says so.
 */
function cutsOff(range: string, { routes, allowOverlap }: RouteFacts): boolean {
  const own = parseCidr(range)
  return hereByRoutes(routes).subnets.some(({ dst, isOfLink }) => {
    const subnet = parseCidr(dst)
    if (own === undefined || subnet === undefined || !isOfLink || !overlaps(own, subnet)) return false
    return !allowOverlap || own.prefixLength <= subnet.prefixLength
  })
}

interface RoutesTo {
  readonly wanted: readonly Wanted[]
  readonly problems: readonly Problem[]
}

/** Of peers that stay as they are beside a table that stays as it is: all but one of a thousand, when a node changes. */
const routesKnown = new WeakMap<Peer, { readonly text: string; readonly found: RoutesTo }>()

function knownRoutesTo(peer: Peer, table: Table): RoutesTo {
  const known = routesKnown.get(peer)
  if (known?.text === table.text) return known.found
  const found = routesTo(peer, table)
  routesKnown.set(peer, { text: table.text, found })
  return found
}

function routesTo(peer: Peer, table: Table): RoutesTo {
  const found = peer.ranges.map((dst) => routeTo(peer, dst, table))
  return {
    wanted: found.flatMap((each) => ('id' in each ? [] : [each])),
    problems: found.flatMap((each) => ('id' in each ? [each] : [])),
  }
}

/** The route to one range of a peer, or why there is none. */
function routeTo(peer: Peer, dst: string, { foreign, beyond, refused }: Table): Wanted | Problem {
  const problem = (id: ProblemId, text: string): Problem => ({ id, node: peer.name, text })
  const cidr = parseCidr(dst)
  if (cidr === undefined) return problem('BadPodCIDR', `podCIDR ${dst} is no CIDR`)
  // The same metric would be replaced, a smaller one wins over ours. IPv6 has 1024 for a route without a metric.
  const isOthers = ({ metric, dev }: NodeRoute) => metric <= routeMetric || (cidr.family === 6 && !isOfPods(dev))
  const other = foreign.get(dst)?.find(isOthers)
  if (other !== undefined && isOfPods(other.dev))
    return problem('ForeignRoute', `pods here still have addresses of ${dst}, by ${other.dev}: drain this node`)
  if (other !== undefined)
    return problem('ForeignRoute', `a route to ${dst} that is not trestle's is used: ${describe(other)}`)
  const gateways = peer.addresses.flatMap((text) => {
    const address = parseAddress(text)
    return address?.family === cidr.family ? [{ text, address }] : []
  })
  if (gateways.length === 0)
    return problem('NoInternalIP', `no InternalIP of IPv${cidr.family}: ${dst} is not routed to it`)
  const ways = gateways.flatMap(({ text, address }) => {
    const dev = segmentOf(address, beyond)
    return dev === undefined ? [] : [{ dst, gateway: text, dev }]
  })
  const way = ways.find((each) => !refused.has(wayOf(each))) ?? ways[0]
  if (way !== undefined) return way
  // The overlay's place: what has no route here can be sent through a tunnel.
  const addresses = gateways.map(({ text }) => text).join(', ')
  return problem(
    'NotOnSegment',
    `${addresses} is not on a link of this node, but behind a router: ${dst} is not routed`,
  )
}

/** The link that an address is on: the longest prefix that contains it has no gateway. */
function segmentOf(address: Address, routes: Table['beyond']): string | undefined {
  const matching = routes.filter(({ cidr }) => includes(cidr, address))
  const [best] = matching.sort((a, b) => b.cidr.prefixLength - a.cidr.prefixLength || a.metric - b.metric)
  const isDirect = best?.type === 'unicast' && best.gateway === undefined
  return isDirect ? best.dev : undefined
}

/** The removal of all own routes of a table. */
export function removalsOf(routes: readonly NodeRoute[]): readonly RouteChange[] {
  return removals(routes.filter(isOwnRoute), [])
}

function removals(own: readonly NodeRoute[], wanted: readonly Wanted[]): readonly RouteChange[] {
  const kept = new Set(wanted.map(({ dst }) => dst))
  const extra = own.filter(({ dst, metric }) => !kept.has(dst) || metric !== routeMetric)
  return extra.map(({ dst, gateway, dev, metric }) => ({
    verb: 'del',
    dst,
    ...(metric === routeMetric ? {} : { metric }),
    ...(gateway === undefined ? {} : { gateway }),
    ...(dev === undefined || gateway === undefined ? {} : { dev }),
    why: `remove the route to ${dst}`,
  }))
}

function additions(own: readonly NodeRoute[], wanted: readonly Wanted[]): readonly RouteChange[] {
  const there = new Map(own.filter(({ metric }) => metric === routeMetric).map((route) => [route.dst, route]))
  return wanted
    .filter((route) => !isSame(there.get(route.dst), route))
    .map((route) => ({
      verb: 'replace',
      ...route,
      why: `route ${route.dst} ${route.gateway === undefined ? 'to nowhere' : `by ${route.gateway}`}`,
    }))
}

/** IPv6 prints the loopback link with an unreachable route. */
function isSame(there: NodeRoute | undefined, { gateway, dev }: Wanted): boolean {
  return there !== undefined && there.gateway === gateway && (gateway === undefined || there.dev === dev)
}

function describe({ dst, gateway, dev, metric }: NodeRoute): string {
  const by = gateway === undefined ? '' : ` via ${gateway}`
  return `${dst}${by}${dev === undefined ? '' : ` dev ${dev}`} metric ${metric}`
}

// Routes of the node as the agent sees them, and which of them are its own.

/**
 * The protocol of the agent's routes (rtnetlink(7), rtm_protocol): free in iproute2's rt_protos. A network manager that
 * keeps its hands off other protocols leaves them alone.
 */
export const routeProtocol = 116

/** Their metric, likewise: below nothing that a person adds without one, and unlike the kernel's own. */
export const routeMetric = 116

/** A route of the main table. `dst`: a CIDR; absent `dev`: none, as of an unreachable one; `source`: an own address. */
export interface NodeRoute {
  readonly dst: string
  readonly type: string
  readonly gateway?: string
  readonly dev?: string
  readonly source?: string
  readonly metric: number
  readonly protocol: number
}

/**
 * One change of a route of the agent's. Without `gateway` it is an unreachable one. `metric`: that of a removed route
 * where it is not the agent's. `why` completes "could not …".
 */
export interface RouteChange {
  readonly verb: 'replace' | 'del'
  readonly dst: string
  readonly gateway?: string
  readonly dev?: string
  readonly metric?: number
  readonly why: string
}

function isOwnRoute({ protocol }: NodeRoute): boolean {
  return protocol === routeProtocol
}

// The main table after changes of our own: known without a look. What `ip monitor` then tells of them is no news.

export function routesAfter(routes: readonly NodeRoute[], changes: readonly RouteChange[]): readonly NodeRoute[] {
  if (changes.length === 0) return routes
  const changed = new Set(changes.map(({ dst, metric = routeMetric }) => `${dst} ${metric}`))
  const made = changes.filter(({ verb }) => verb === 'replace')
  return [
    ...routes.filter((route) => !isOwnRoute(route) || !changed.has(`${route.dst} ${route.metric}`)),
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
  const [, deleted, type, dst, proto] = /^(Deleted )?(unreachable )?(\S+\/\d+) .*\bproto (\d+)\b/.exec(line) ?? []
  if (routes === undefined || dst === undefined || Number(proto) !== routeProtocol) return false
  const gateway = /\bvia (\S+)/.exec(line)?.[1]
  const metric = Number(/\bmetric (\d+)/.exec(line)?.[1] ?? 0)
  const isThere = routes.some(
    (route) =>
      route.dst === dst &&
      isOwnRoute(route) &&
      route.metric === metric &&
      route.gateway === gateway &&
      (type !== undefined) === (gateway === undefined),
  )
  return isThere === (deleted === undefined)
}
