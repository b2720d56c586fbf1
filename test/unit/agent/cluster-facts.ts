// SPDX-License-Identifier: Apache-2.0
// A node at 192.0.2.1 with the ranges 10.0.1.0/24 and fd00:1::/64, and what these tests put around it.

import { type ClusterDecision, type ClusterFacts, decideCluster } from '../../../src/agent/cluster.ts'
import { type NodeAddress, parseAddress, type Range, rangeOf } from '../../../src/agent/node-ranges.ts'
import { type ClusterNode, readNode, subnetsAnnotation } from '../../../src/agent/nodes.ts'
import {
  type KernelRoute,
  overlayLink,
  type RouteChange,
  routeMetric,
  routeProtocol,
} from '../../../src/agent/routes.ts'

export function range(text: string): Range {
  const found = rangeOf(text)
  if (found === undefined) throw new TypeError(text)
  return found
}

export function address(text: string): NodeAddress {
  const found = parseAddress(text)
  if (found === undefined) throw new TypeError(text)
  return found
}

interface More {
  readonly created?: string
  /** What its agent has published. */
  readonly subnets?: string
}

export function node(name: string, podCIDRs: readonly string[], addresses: readonly string[], more: More = {}) {
  const { created = '2026', subnets } = more
  const found = readNode({
    metadata: { name, uid: name, creationTimestamp: created, annotations: { [subnetsAnnotation]: subnets } },
    spec: { podCIDRs },
    status: { addresses: addresses.map((each) => ({ type: 'InternalIP', address: each })) },
  })
  if (found === undefined) throw new TypeError(name)
  return found
}

export const self = node('self', ['10.0.1.0/24', 'fd00:1::/64'], ['192.0.2.1'])
export const two = node('two', ['10.0.2.0/24', 'fd00:2::/64'], ['192.0.2.2', '2001:db8::2'])

type Parts = Partial<Omit<KernelRoute, 'range'>>

/** A route of the kernel, as an address of a link has it. */
export function link(text: string, dev: string, parts: Parts = {}): KernelRoute {
  return { range: range(text), isUnicast: true, dev, metric: 0, protocol: 2, ...parts }
}

/** Somebody else's route. */
export function via(text: string, gateway: string, parts: Parts = {}): KernelRoute {
  return link(text, 'eth0', { gateway, protocol: 3, ...parts })
}

/** A route of the agent's, by a gateway. */
export function ours(text: string, gateway: string, parts: Parts = {}): KernelRoute {
  return via(text, gateway, { metric: routeMetric, protocol: routeProtocol, ...parts })
}

/** A route of the agent's, into the overlay. */
export function encapsulated(text: string, remote: string, vni = 4790): KernelRoute {
  return link(text, overlayLink, { remote, vni, metric: routeMetric, protocol: routeProtocol })
}

export const base: readonly KernelRoute[] = [
  via('0.0.0.0/0', '192.0.2.254'),
  link('192.0.2.0/24', 'eth0'),
  link('2001:db8::/64', 'eth0', { metric: 256 }),
]

interface Given extends Partial<Omit<ClusterFacts, 'here' | 'bounds' | 'earlier' | 'overlay' | 'apiServer'>> {
  readonly routes?: readonly KernelRoute[]
  readonly addresses?: readonly string[]
  readonly mtus?: Readonly<Record<string, number>>
  readonly bounds?: readonly string[]
  readonly earlier?: readonly string[]
  readonly apiServer?: string
  readonly when?: ClusterFacts['overlay']['when']
}

/** The decision of the node `self`. */
export function decide(nodes: readonly ClusterNode[], given: Given = {}): ClusterDecision {
  const { routes = base, addresses = ['192.0.2.1', '2001:db8::1'], mtus = { eth0: 1500 }, when = 'auto' } = given
  const { bounds = [], earlier = [], apiServer, ...others } = given
  return decideCluster({
    ...{ self: 'self', isCloudRouted: false, isRouted: false, allowOverlap: false, nowMs: 0, since: new Map() },
    ...others,
    nodes,
    here: {
      routes,
      addresses: new Map(addresses.map((text) => [text, address(text)])),
      mtus: new Map(Object.entries(mtus)),
    },
    bounds: bounds.map(range),
    earlier: earlier.map(range),
    overlay: { when, port: 4790, vni: 4790 },
    apiServer: apiServer === undefined ? undefined : address(apiServer),
  })
}

/** A line for each problem: node, id and text. */
export function told({ problems }: ClusterDecision): readonly string[] {
  return problems.map(({ id, node: name, text }) => `${name} ${id} ${text}`)
}

/** Node and id of each problem. */
export function ids({ problems }: ClusterDecision): readonly string[] {
  return problems.map(({ id, node: name }) => `${name} ${id}`)
}

/** The ranges of each other node. */
export function rangesOf({ peers }: ClusterDecision): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(peers.map(({ name, ranges }) => [name, texts(ranges)]))
}

/** The addresses of each other node. */
export function addressesOf({ peers }: ClusterDecision): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(peers.map(({ name, addresses }) => [name, texts(addresses)]))
}

/** A line for each route that is wanted. */
export function ways({ wanted }: Pick<ClusterDecision, 'wanted'>): readonly string[] {
  return wanted.map(({ range: { text }, isUnicast, gateway, dev, remote }) => {
    if (!isUnicast) return `unreachable ${text}`
    return remote === undefined ? `${text} via ${gateway} dev ${dev}` : `${text} encap ${remote}`
  })
}

export function texts(all: Iterable<{ readonly text: string }>): readonly string[] {
  return [...all].map(({ text }) => text)
}

/** The table after the changes, as `ip` makes them, by destination and metric. Throws where nothing can be removed. */
export function changed(there: readonly KernelRoute[], changes: readonly RouteChange[]): readonly KernelRoute[] {
  let table = there
  for (const { words } of changes) {
    const [, verb, ...more] = words
    const isUnicast = more[0] !== 'unreachable'
    const after = (key: string) => (more.includes(key) ? more[more.indexOf(key) + 1] : undefined)
    const text = more[isUnicast ? 0 : 1] ?? ''
    const [metric, protocol] = [Number(after('metric')), Number(after('proto'))]
    const [gateway, dev, remote, vni] = [after('via'), after('dev'), after('dst'), after('id')]
    const isIt = (route: KernelRoute) => route.range.text === text && route.metric === metric
    if (verb === 'del' && !table.some((route) => isIt(route) && route.protocol === protocol)) throw new Error(text)
    table = table.filter((route) => !isIt(route))
    if (verb === 'del') continue
    const by = { ...(gateway && { gateway }), ...(dev && { dev }), ...(remote && { remote, vni: Number(vni) }) }
    table = [...table, { range: range(text), isUnicast, ...by, metric, protocol }]
  }
  return table
}
