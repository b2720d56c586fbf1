// SPDX-License-Identifier: Apache-2.0
// What the cluster means for this node: its own ranges, the other nodes' ranges, the route to each, and what is wrong.
// Pure: the same nodes, routes and options give the same decision, in whatever order they came.

import { isPodLinkName } from '../drivers/names.ts'
import { ClaimedRanges, includes, isSpecial, isWithin, type NodeAddress, overlaps, type Range } from './node-ranges.ts'
import type { ClusterNode } from './nodes.ts'
import {
  isOwnRoute,
  type KernelRoute,
  overlayLink,
  routeByGateway,
  routeByOverlay,
  routeMetric,
  unreachableRoute,
} from './routes.ts'
import type { OverlaySettings } from './settings.ts'

/** What a person has to do something about. docs/kubernetes.md has each id with its cure. */
export const problemIds = [
  ...(['NoPodCIDR', 'BadPodCIDR', 'OverlappingPodCIDR', 'BeyondClusterCIDR', 'NoInternalIP', 'BadInternalIP'] as const),
  ...(['NotOnSegment', 'ForeignRoute', 'OverlapsHost', 'MovedPodCIDR', 'ModeChanged', 'MtuChanged'] as const),
  ...(['PoolNearlyFull', 'OtherConfiguration', 'BadTemplate', 'NoProgram', 'ProgramFails', 'RouteRefused'] as const),
  'OverlayFails',
] as const

/** `node`: the one that it is about. `text`: one line, what is wrong and what follows. */
export interface Problem {
  readonly id: (typeof problemIds)[number]
  readonly node: string
  readonly text: string
}

/** This node's part in the network, by its main table. */
export interface Surroundings {
  readonly routes: readonly KernelRoute[]
  /** Addresses of its links, by their text. */
  readonly addresses: ReadonlyMap<string, NodeAddress>
  /** Bytes, by link. */
  readonly mtus: ReadonlyMap<string, number>
}

export interface ClusterFacts {
  readonly self: string
  readonly nodes: readonly ClusterNode[]
  readonly here: Surroundings
  /** What the ranges of other nodes lie in; nothing where no option says so. */
  readonly bounds: readonly Range[]
  /** Ranges of live pods of this node that are none of today's. */
  readonly earlier: readonly Range[]
  readonly overlay: OverlaySettings
  readonly isCloudRouted: boolean
  /** Pods have a routed link each (mode ptp). */
  readonly isRouted: boolean
  readonly allowOverlap: boolean
  readonly nowMs: number
  /** Of the last decision. */
  readonly since: ReadonlyMap<string, number>
  /** Of its URL: an agent that routes this address to a node learns of no correction. */
  readonly apiServer?: NodeAddress | undefined
}

/** Another node, with the ranges that are its own, and the InternalIPs by which it can be reached. */
export interface Peer {
  readonly name: string
  readonly ranges: readonly Range[]
  readonly addresses: readonly NodeAddress[]
  /** The subnets of its links, as its agent has published them. */
  readonly subnets?: readonly Range[] | undefined
}

export interface ClusterDecision {
  /** For new pods, in the cluster's order of families. */
  readonly own: readonly Range[]
  readonly peers: readonly Peer[]
  readonly wanted: readonly KernelRoute[]
  /** Routes of the agent that are not wanted, and stay. */
  readonly kept: ReadonlySet<KernelRoute>
  /** When a route was first seen to lead to no Node, by its range (milliseconds). */
  readonly since: ReadonlyMap<string, number>
  /** Bytes that a packet to any peer may have; undefined without peers. */
  readonly mtu?: number
  /** Bytes that the overlay carries to each peer. */
  readonly overlayMtu: number
  /** Subnets of this node's links that have an InternalIP of it: its agent publishes them. */
  readonly subnets: readonly Range[]
  /** An older Node has the same range. */
  readonly isYounger: boolean
  readonly problems: readonly Problem[]
}

export function decideCluster(facts: ClusterFacts): ClusterDecision {
  const { self, here, earlier, isRouted, isCloudRouted } = facts
  const nodes = [...facts.nodes].sort(byAge)
  const ownNode = nodes.find(({ name }) => name === self)
  const subnets = subnetsOf(here.routes)
  const claimed = new ClaimedRanges()
  const problems: Problem[] = []
  const judging: Judging = { facts, ownNode, subnets, claimed, problems, owners: ownersOf(nodes) }
  // The own ranges first: whoever else has them, the pods here have their addresses from them.
  const own = ownNode === undefined ? [] : judgeRanges(ownNode, judging)
  // The widest first: each of them may hold pods of this node.
  for (const range of [...own, ...earlier].sort((a, b) => a.prefixLength - b.prefixLength))
    if (claimed.overlapping(range) === undefined) claimed.add({ node: self, range })
  const others = nodes.filter(({ name }) => name !== self)
  const claims = others.map((node) => {
    const ranges = judgeRanges(node, judging)
    for (const range of ranges) claimed.add({ node: node.name, range })
    return ranges
  })
  const peers = others.map((node, at): Peer => {
    const addresses = usableAddresses(node, judging)
    return { name: node.name, ranges: claims[at] ?? [], addresses, subnets: node.subnets }
  })
  if (ownNode !== undefined) usableAddresses(ownNode, judging)
  const wanted: KernelRoute[] = []
  if (!isCloudRouted) {
    const table = tableOf(here.routes)
    for (const peer of peers) {
      for (const range of peer.ranges) {
        const route = routeTo(peer, range, { overlay: facts.overlay, ownNode, table })
        if (route === undefined) continue
        if ('id' in route) problems.push(route)
        else wanted.push(route)
      }
    }
    // Packets to an address without a pod would go to the default gateway and come back.
    const isOnLink = (range: Range) => subnets.some((each) => each.isOfLink && overlapsWrongly(range, each, facts))
    if (isRouted) for (const range of [...own, ...earlier]) if (!isOnLink(range)) wanted.push(unreachableRoute(range))
  }
  const listed = nodes.flatMap(({ ranges }) => ranges.flatMap(({ range }) => (typeof range === 'string' ? [] : range)))
  return {
    own,
    peers,
    wanted,
    ...routesToKeep({ listed, peers, wanted }, facts),
    ...mtusFor(peers, wanted, here),
    subnets: subnets.flatMap(({ range, isOfLink }) => {
      return isOfLink && ownNode?.addresses.some((address) => includes(range, address)) ? [range] : []
    }),
    isYounger: problems.some(({ id, node }) => id === 'OverlappingPodCIDR' && node === self),
    problems,
  }
}

/** The elder node keeps what two of them claim. */
function byAge(a: ClusterNode, b: ClusterNode): number {
  if (a.created !== b.created) return a.created < b.created ? -1 : 1
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0
}

/** A range that leads to a link of this node. `isOfLink`: by an address of the link, or an advertised prefix. */
interface Subnet {
  readonly range: Range
  readonly dev: string
  readonly isOfLink: boolean
}

/** RTPROT_KERNEL, and RTPROT_RA for prefixes that routers advertise (rtnetlink(7)). */
const linkProtocols: readonly number[] = [2, 9]

/** Of this node's links, but for those of pods and the overlay. */
function subnetsOf(routes: readonly KernelRoute[]): readonly Subnet[] {
  const subnets = new Map<string, Subnet>()
  for (const { range, dev, gateway, isUnicast, protocol } of routes) {
    const isFull = range.prefixLength === 0 || range.prefixLength === (range.family === 6 ? 128 : 32)
    if (dev === undefined || gateway !== undefined || !isUnicast || isFull || isOfPods(dev)) continue
    if (range.text.startsWith('fe80:')) continue
    subnets.set(`${range.text} ${dev}`, { range, dev, isOfLink: linkProtocols.includes(protocol) })
  }
  return [...subnets.values()]
}

/** A bridge of trestle or the gateway of a VLAN on it, a pod's link, the overlay. */
function isOfPods(dev: string | undefined): boolean {
  return dev !== undefined && (/^cni\d+(?:\.\d+)?$/.test(dev) || isPodLinkName(dev) || dev === overlayLink)
}

function overlapping(range: Range, subnets: readonly Subnet[], facts: ClusterFacts): Subnet | undefined {
  return facts.allowOverlap ? undefined : subnets.find((subnet) => overlapsWrongly(range, subnet, facts))
}

/** A wider route that a person or a VPN made loses to the routes of the pods' ranges. */
function overlapsWrongly(range: Range, { range: subnet, isOfLink }: Subnet, { allowOverlap }: ClusterFacts): boolean {
  const mayBeWider = allowOverlap || !isOfLink
  return overlaps(subnet, range) && !(mayBeWider && subnet.prefixLength < range.prefixLength)
}

/** What Nodes are judged by. `owners`: which Node has an address, the elder one of two. */
interface Judging {
  readonly facts: ClusterFacts
  readonly ownNode: ClusterNode | undefined
  readonly subnets: readonly Subnet[]
  readonly claimed: ClaimedRanges
  readonly owners: ReadonlyMap<string, ClusterNode>
  /** Grows. */
  readonly problems: Problem[]
}

function ownersOf(nodes: readonly ClusterNode[]): ReadonlyMap<string, ClusterNode> {
  const owners = new Map<string, ClusterNode>()
  for (const node of nodes) for (const { text } of node.addresses) if (!owners.has(text)) owners.set(text, node)
  return owners
}

/** Ranges that pods of the node can have addresses of: its own with any fault that leaves them usable, others' with none. */
function judgeRanges(node: ClusterNode, judging: Judging): readonly Range[] {
  const { facts, problems } = judging
  const isOwn = node.name === facts.self
  const effect = isOwn ? 'its pods get no network' : 'nothing is routed to its pods'
  if (node.ranges.length === 0)
    problems.push({ id: 'NoPodCIDR', node: node.name, text: `the node has no podCIDR: ${effect}` })
  const good: Range[] = []
  for (const { text, range } of node.ranges) {
    const problem =
      typeof range === 'string'
        ? ({ id: 'BadPodCIDR', node: node.name, text: `podCIDR ${JSON.stringify(text)} ${range}` } as const)
        : judgeRange(node, range, good, judging)
    if (problem !== undefined) problems.push(problem)
    if (typeof range !== 'string' && (problem === undefined || (isOwn && problem.id !== 'BadPodCIDR'))) good.push(range)
  }
  return good
}

/** What is wrong with a range. `before`: the node's others. */
function judgeRange(node: ClusterNode, range: Range, before: readonly Range[], judging: Judging): Problem | undefined {
  const { facts, subnets, claimed } = judging
  const { self, bounds, here, apiServer } = facts
  const isOwn = node.name === self
  const problem = (id: Problem['id'], what: string): Problem => {
    return { id, node: node.name, text: `podCIDR ${range.text} ${what}` }
  }
  // A gateway, a pod, and for IPv4 the first and last address.
  if ((range.family === 6 ? 128 : 32) - range.prefixLength < 2) return problem('BadPodCIDR', 'has no room for pods')
  if (before.some(({ family }) => family === range.family))
    return problem('BadPodCIDR', `is a second range of IPv${range.family}`)
  if (bounds.length > 0 && !bounds.some((bound) => isWithin(range, bound)))
    return problem(
      'BeyondClusterCIDR',
      `is not in --cluster-cidr: ${isOwn ? 'others do not route it' : 'it is not routed'}`,
    )
  if (apiServer !== undefined && includes(range, apiServer))
    return problem('BadPodCIDR', `has the API server's address ${apiServer.text} in it`)
  const other = claimed.overlapping(range)
  if (other !== undefined) return doubleRange(node, range, other, judging)
  const held = isOwn ? undefined : [...here.addresses.values()].find((address) => includes(range, address))
  if (held !== undefined) return problem('BadPodCIDR', `has this node's address ${held.text} in it`)
  const subnet = overlapping(range, subnets, facts)
  if (subnet === undefined) return undefined
  const { text } = subnet.range
  const effect = isOwn ? 'pods get no network' : 'it is not routed'
  return problem('OverlapsHost', `overlaps ${text} of ${subnet.dev}: ${effect}`)
}

/** Two nodes have a range: the problem names the younger one, also where that is this one. */
function doubleRange(
  node: ClusterNode,
  range: Range,
  other: { readonly node: string; readonly range: Range },
  { ownNode, facts: { earlier } }: Judging,
): Problem {
  const id = 'OverlappingPodCIDR'
  const what = `podCIDR ${range.text} overlaps ${other.range.text}`
  if (earlier.includes(other.range))
    return { id, node: node.name, text: `${what}, of which pods are left here: drain this node` }
  if (ownNode === undefined || ownNode.name !== other.node || byAge(ownNode, node) < 0)
    return { id, node: node.name, text: `${what} of node ${other.node}` }
  const elder = `${range.text} of node ${node.name}, the elder`
  const text = `podCIDR ${other.range.text} overlaps ${elder}: delete this Node and register it again`
  return { id, node: ownNode.name, text }
}

/** InternalIPs by which the node can be reached. A node may write what it likes into its own status. */
function usableAddresses(node: ClusterNode, judging: Judging): readonly NodeAddress[] {
  const usable: NodeAddress[] = []
  for (const address of node.addresses) {
    // The node's own bridge, or the gateway on its pods' links: no mistake, and no way to it.
    if (judging.claimed.holding(address)?.node === node.name) continue
    const wrong = wrongWith(address, node, judging)
    if (wrong === undefined) usable.push(address)
    else judging.problems.push({ id: 'BadInternalIP', node: node.name, text: `InternalIP ${address.text} ${wrong}` })
  }
  return usable
}

function wrongWith(address: NodeAddress, node: ClusterNode, { facts, owners, subnets, claimed }: Judging) {
  const { self, here } = facts
  if (isSpecial(address)) return 'is no address that other nodes can send to'
  if (node.name !== self && here.addresses.has(address.text)) return "is this node's own"
  const holder = claimed.holding(address)
  // An own range that this node's links are in is at fault itself.
  const isAtFault = holder?.node === self && overlapping(holder.range, subnets, facts) !== undefined
  if (holder !== undefined && !isAtFault) return `is in podCIDR ${holder.range.text} of node ${holder.node}`
  const isEdge = ({ range: { family, first, last, prefixLength } }: Subnet) =>
    family === 4 && prefixLength < 31 && address.family === 4 && [first, last].includes(address.value)
  const edge = subnets.find(isEdge)
  if (edge !== undefined) return `is the first or last address of ${edge.range.text}`
  const owner = owners.get(address.text)
  const isOwn = node.name === self && here.addresses.has(address.text)
  return owner === undefined || owner === node || isOwn ? undefined : `is node ${owner.name}'s, which is the elder`
}

/** Routes of others: by their destination, and those that lead out of the node. */
interface Table {
  readonly byRange: ReadonlyMap<string, readonly KernelRoute[]>
  readonly beyond: readonly KernelRoute[]
}

function tableOf(routes: readonly KernelRoute[]): Table {
  const foreign = routes.filter((route) => !isOwnRoute(route))
  return {
    byRange: Map.groupBy(foreign, ({ range }) => range.text),
    beyond: foreign.filter(({ dev }) => !isOfPods(dev)),
  }
}

/** The route to a range of a peer, or why there is none; undefined where somebody else's route leads there. */
function routeTo(
  peer: Peer,
  range: Range,
  of: { readonly overlay: OverlaySettings; readonly ownNode: ClusterNode | undefined; readonly table: Table },
): KernelRoute | Problem | undefined {
  const { overlay, ownNode, table } = of
  const problem = (id: Problem['id'], text: string): Problem => ({ id, node: peer.name, text })
  const other = table.byRange.get(range.text)?.find(isInTheWay)
  if (other !== undefined && isOfPods(other.dev))
    return problem('ForeignRoute', `pods here still have addresses of ${range.text}, by ${other.dev}: drain this node`)
  if (other !== undefined)
    return problem('ForeignRoute', `a route to ${range.text} that is not trestle's is used: ${describeRoute(other)}`)
  const sameFamily = peer.addresses.filter(({ family }) => family === range.family)
  const near = sameFamily.flatMap((address) => {
    const dev = segmentOf(address, table.beyond)
    return dev !== undefined && isCommon(ownNode, peer, address.family) ? [{ gateway: address.text, dev }] : []
  })
  const [direct] = near
  if (direct !== undefined && overlay.when !== 'always') return routeByGateway(range, direct.gateway, direct.dev)
  // A cloud's route to all pods, say.
  const isLed = table.beyond.some(
    (route) => route.range.prefixLength > 0 && route.gateway !== undefined && isWithin(range, route.range),
  )
  if (isLed && overlay.when === 'auto') return undefined
  const remote = remoteOf(peer)
  if (overlay.when !== 'never' && remote !== undefined) return routeByOverlay(range, remote.text, overlay.vni)
  if (sameFamily.length === 0)
    return problem('NoInternalIP', `no InternalIP of IPv${range.family}: ${range.text} is not routed to it`)
  const addresses = sameFamily.map(({ text }) => text).join(', ')
  return problem(
    'NotOnSegment',
    `${addresses} is on no link of this node, but behind a router: ${range.text} is not routed (--overlay auto does)`,
  )
}

/** The same metric would be replaced, a smaller one wins; with IPv6 a route without a metric has 1024, and counts, too. */
function isInTheWay({ metric, range, dev }: KernelRoute): boolean {
  return metric <= routeMetric || (range.family === 6 && !isOfPods(dev))
}

function describeRoute({ range, gateway, dev, metric }: KernelRoute): string {
  const by = gateway === undefined ? '' : ` via ${gateway}`
  return `${range.text}${by}${dev === undefined ? '' : ` dev ${dev}`} metric ${metric}`
}

/** The link that an address is on: the longest prefix that contains it has no gateway. */
function segmentOf(address: NodeAddress, routes: readonly KernelRoute[]): string | undefined {
  const best = bestRoute(address, routes)
  return best?.isUnicast && best.gateway === undefined ? best.dev : undefined
}

function bestRoute(address: NodeAddress, routes: readonly KernelRoute[]): KernelRoute | undefined {
  let best: KernelRoute | undefined
  for (const route of routes) {
    if (!includes(route.range, address)) continue
    const length = route.range.prefixLength - (best?.range.prefixLength ?? -1)
    if (length > 0 || (length === 0 && route.metric < (best?.metric ?? 0))) best = route
  }
  return best
}

/**
 * Both ends decide alike: the other node's subnets, as its agent publishes them, have an address of this one. A reply
 * that comes by another link than the request went is dropped where rp_filter is strict.
 */
function isCommon(ownNode: ClusterNode | undefined, { subnets }: Peer, family: 4 | 6): boolean {
  const theirs = subnets?.filter((subnet) => subnet.family === family)
  if (theirs === undefined || ownNode === undefined) return true
  return ownNode.addresses.some((address) => theirs.some((subnet) => includes(subnet, address)))
}

/** What an encapsulated packet has in front of it: IP, UDP, VXLAN-GPE. */
export function overheadOf(remote: string): number {
  return (remote.includes(':') ? 40 : 20) + 8 + 8
}

/** The address that packets for the peer are encapsulated to: the first of IPv4, which all nodes choose alike. */
function remoteOf({ addresses }: Peer): NodeAddress | undefined {
  return addresses.find(({ family }) => family === 4) ?? addresses[0]
}

/** Bytes that a packet may have on the wanted routes, and in the overlay to any peer. */
function mtusFor(peers: readonly Peer[], wanted: readonly KernelRoute[], { routes, mtus }: Surroundings) {
  const { beyond } = tableOf(routes)
  const carried = new Map<string, number>()
  for (const remote of peers.flatMap((peer) => remoteOf(peer) ?? [])) {
    const mtu = mtus.get(bestRoute(remote, beyond)?.dev ?? '')
    if (mtu !== undefined) carried.set(remote.text, mtu - overheadOf(remote.text))
  }
  const ways = wanted.flatMap(({ dev = '', remote }) => {
    return (remote === undefined ? mtus.get(dev) : carried.get(remote)) ?? []
  })
  const usual = Math.min(1500, ...mtus.values()) - overheadOf('::')
  return {
    ...(ways.length === 0 ? {} : { mtu: Math.min(...ways) }),
    overlayMtu: carried.size === 0 ? usual : Math.min(...carried.values()),
  }
}

/** How long the route to a Node that vanished stays: its pods may live, and it may be registered again. */
const vanishedMs = 10 * 60 * 1000

/**
 * Routes of the agent that nobody wants, and that stay, since pods may have the old ranges: to an address that a Node still
 * has until a listed range overlaps it, to another one for ten minutes. `listed`: ranges of all Nodes.
 */
function routesToKeep(
  { listed, peers, wanted }: Pick<ClusterDecision, 'peers' | 'wanted'> & { readonly listed: readonly Range[] },
  { here: { routes }, since, nowMs, bounds }: Pick<ClusterFacts, 'here' | 'since' | 'nowMs' | 'bounds'>,
): Pick<ClusterDecision, 'kept' | 'since'> {
  const claimed = new ClaimedRanges()
  // The widest first: ranges nest, or have no address in common.
  for (const range of listed.toSorted((a, b) => a.prefixLength - b.prefixLength))
    if (claimed.overlapping(range) === undefined) claimed.add({ node: '', range })
  const texts = new Set(wanted.map(({ range }) => range.text))
  const addresses = peers.flatMap((peer) => peer.addresses)
  const present = new Set(addresses.map(({ text }) => text))
  const kept = new Set<KernelRoute>()
  const goneSince = new Map<string, number>()
  for (const route of routes) {
    const { range, gateway, remote, metric } = route
    const to = remote ?? gateway
    if (!isOwnRoute(route) || metric !== routeMetric || to === undefined || texts.has(range.text)) continue
    if (claimed.overlapping(range) !== undefined || addresses.some((each) => includes(range, each))) continue
    if (bounds.length > 0 && !bounds.some((bound) => isWithin(range, bound))) continue
    if (present.has(to)) kept.add(route)
    else {
      const firstMs = since.get(range.text) ?? nowMs
      goneSince.set(range.text, firstMs)
      if (nowMs - firstMs < vanishedMs) kept.add(route)
    }
  }
  return { kept, since: goneSince }
}
