// SPDX-License-Identifier: Apache-2.0
// A round: compares the cluster and the state with the node. Every step is repeatable at any time, and a failed step
// does not stop the others.

import { bareAddress } from '../../cni/address.ts'
import { toCniError } from '../../cni/error.ts'
import { type CallContext, openContext } from '../../commands/call/context.ts'
import { allNetworks, allRecords, readCluster, removeUnused, restore, setCluster } from '../../core.ts'
import type { Cluster } from '../../features/cluster.ts'
import type { Mode } from '../../model/attachment.ts'
import type { ClusterNode } from '../../plan/agent/cluster-node.ts'
import { type ClusterView, clusterView, ownRanges, takenRanges } from '../../plan/agent/cluster-view.ts'
import { allowsOverlap, withoutOverlap } from '../../plan/agent/conflist.ts'
import { type Memory, rangesInUse, rememberedPeers } from '../../plan/agent/memory.ts'
import type { ModeChoice, MtuWanted } from '../../plan/agent/new-pods.ts'
import type { Here } from '../../plan/agent/node-addresses.ts'
import type { PoolLook, Problem } from '../../plan/agent/problem.ts'
import type { NodeRoute, RoutePlan } from '../../plan/agent/routes.ts'
import { addressOf } from './access.ts'
import {
  missingPrograms,
  settleConfiguration,
  settleExecutable,
  settleTemplate,
  withdrawRanges,
  writtenRanges,
} from './files.ts'
import type { Log } from './log.ts'
import { type KeptMemory, keepMemory, readMemory } from './memory.ts'
import type { Metrics } from './metrics.ts'
import { isSetUpWith, lookAtMode, lookAtMtu, lookAtPlace, type Place } from './new-pods.ts'
import { lookAtPools } from './pools.ts'
import {
  type LookedRoutes,
  lookForRoutes,
  lookHere,
  type Made,
  madeFrom,
  type RouteRules,
  settleRoutes,
} from './routes.ts'
import type { Settings } from './settings.ts'
import type { KeptTemplate } from './template.ts'

/**
 * A round's knowledge for the next one, so that a node's change needs no look at the machine. A change by others
 * deletes the part that it affects. `routes`: the main table, with changes under way. `looked` and `Made` values
 * compare their inputs, so they stay.
 */
export interface Known {
  memory?: KeptMemory | undefined
  routes?: readonly NodeRoute[] | undefined
  looked?: LookedRoutes
  view?: Made<ClusterView>
  cluster?: Made<Cluster>
  plan?: Made<RoutePlan>
  /** Of the last round that could change routes. */
  routeProblems?: readonly Problem[]
  remembered?: Made<Memory>
  here?: Made<Here>
  mode?: ModeChoice
  place?: Made<Place>
  /** Routes that the kernel refused, and the text of the others' routes at that time. */
  refused?: { readonly beside: string; readonly ways: ReadonlySet<string> } | undefined
  pools?: readonly PoolLook[]
  mtu?: { readonly wanted: MtuWanted; readonly problems: readonly Problem[] }
  template?: KeptTemplate
}

/**
 * A round's input. `nodes`: absent until a whole list was read; until then the round makes routes that are missing, and
 * changes nothing else of the cluster.
 */
export interface RoundInput {
  readonly settings: Settings
  readonly nodes: ReadonlyMap<string, ClusterNode> | undefined
  /** The URL that the nodes were read from. */
  readonly apiServer?: string
  /** True to compare all state with the node, false for the cluster's part alone. */
  readonly isWhole: boolean
  readonly known: Known
  readonly signal: AbortSignal
  readonly log: Log
  readonly metrics: Metrics
}

/** `isDone`: configuration, rules and routes are in place. `waitsFor`: the reason for /readyz, if not. */
export interface RoundResult {
  readonly isDone: boolean
  readonly waitsFor: string | undefined
  readonly problems: readonly Problem[]
  readonly failures: readonly string[]
}

/** Runs a round. Never rejects. */
export async function runRound(asked: RoundInput): Promise<RoundResult> {
  // A copy of the list for the whole round, since the watch continues meanwhile.
  const input = { ...asked, nodes: asked.nodes && new Map(asked.nodes) }
  const failures: string[] = []
  const problems: Problem[] = []
  const attempt: Attempt = async (what, step) => {
    try {
      problems.push(...(await step()))
    } catch (thrown) {
      const { message, details } = toCniError(thrown)
      failures.push(`${what}: ${message}${details === undefined ? '' : ` (${details.trim().split('\n')[0]})`}`)
    }
  }
  // A list without this node is another cluster's, or a cluster's that lost its nodes: pods keep their routes.
  const ownNode = input.nodes?.get(input.settings.node)
  const podCidrs = ownNode === undefined ? [] : ownRanges(ownNode, addressOf(input.apiServer)).ranges
  await attempt('mode', async () => settleMode(input))
  await attempt('template', async () => settleTemplate(input, { mode: modeNow(input), podCidrs }))
  if (input.nodes !== undefined && ownNode !== undefined)
    problems.push(...(await settleCluster(input, input.nodes, attempt)))
  else problems.push(...(await keepRoutes(input, attempt)))
  if (input.isWhole) await attempt('repair', () => repair(input))
  await attempt('pools', async () => lookAtPools(input, podCidrs))
  await attempt('MTU', async () => lookAtMtu(input, podCidrs))
  await attempt('programs', async () => missingPrograms(input))
  await attempt('executable', () => settleExecutable(input, contextOf(input).run))
  // Without a working plugin every pod of the node would fail.
  const unfit = problems.find(({ id }) => id === 'NoProgram' || id === 'ProgramFails')?.text
  const canPlace = failures.length === 0 && unfit === undefined && podCidrs.length > 0
  if (canPlace) await attempt('bridge', () => settlePlace(input, podCidrs))
  const place = canPlace ? input.known.place?.value : undefined
  const good = input.known.template?.good
  const hasElder = isGivenUp(input.settings, podCidrs, problems)
  const hasPods = place !== undefined && good !== undefined && failures.length === 0 && !hasElder
  const taken = hasPods || ownNode === undefined ? undefined : takenNow(input)
  // Last, because a node is ready as soon as it has a configuration.
  await attempt('configuration', async () => {
    if (!hasPods) return hasElder || taken !== undefined ? withdrawRanges(input) : []
    const template = place.refused === undefined ? good : withoutOverlap(good)
    return settleConfiguration(input, { mode: modeNow(input), bridge: place.bridge, podCidrs, template })
  })
  const why =
    unfit ??
    waitingFor(input, podCidrs) ??
    problems.find(({ id }) => id === 'BadTemplate')?.text ??
    place?.refused ??
    problems.find((problem) => keepsFromReady(problem, input.settings, podCidrs))?.text
  const waitsFor = why === undefined || taken === undefined ? why : `${why}; new pods get no address, ${taken}`
  const isDone = failures.length === 0 && waitsFor === undefined
  return {
    isDone,
    waitsFor,
    problems: place?.refused === undefined ? problems : withoutMoved(problems, place),
    failures,
  }
}

/** Whether this node's own ranges are nothing for pods: in a subnet of the node, or an elder node's. */
function keepsFromReady(problem: Problem, settings: Settings, podCidrs: readonly string[]): boolean {
  if (isElders(problem, settings)) return true
  // Set up before that subnet was there, the network goes on.
  const isSubnet = problem.id === 'OverlapsHost' && problem.node === settings.node
  return isSubnet && !isSetUpWith(settings.network, podCidrs)
}

/**
 * Whether the addresses of the ranges are an elder node's. A network that was set up with the ranges goes on: one
 * faulty Node, the eldest, must not take all others out of service.
 */
function isGivenUp(settings: Settings, podCidrs: readonly string[], problems: readonly Problem[]): boolean {
  return problems.some((problem) => isElders(problem, settings)) && !isSetUpWith(settings.network, podCidrs)
}

/** Which ranges of the configuration another node has by now, or had it before they were withdrawn. */
function takenNow({ known: { memory, view }, settings }: RoundInput): string | undefined {
  const written = writtenRanges(settings)
  if (written === undefined) return undefined
  return takenRanges(written.length > 0 ? written : (memory?.memory.own ?? []), view?.value.peers ?? [])
}

/** Whether an elder node has a range of this one. */
function isElders({ id, node }: Problem, settings: Settings): boolean {
  return id === 'OverlappingPodCIDR' && node === settings.node
}

/** Runs a step, and keeps its problems or its failure. */
type Attempt = (what: string, step: () => Promise<readonly Problem[]>) => Promise<void>

/** Drops MovedPodCIDR where the refusal of new pods already names the pods of an earlier range. */
function withoutMoved(problems: readonly Problem[], place: Place): readonly Problem[] {
  return problems.filter((problem) => problem.id !== 'MovedPodCIDR' || place.problems.includes(problem))
}

/** Adapts routes, rules and memory to the cluster. Returns the cluster's problems. */
async function settleCluster(
  input: RoundInput,
  nodes: ReadonlyMap<string, ClusterNode>,
  attempt: Attempt,
): Promise<readonly Problem[]> {
  const { isWhole, known, settings } = input
  const kept = isWhole ? undefined : known.memory
  const memory = kept ?? readMemory(settings.network, known.memory)
  await attempt('routes', async () => {
    await lookForRoutes(input)
    return []
  })
  const view = viewOf(input, nodes, memory.memory)
  // Routes first, so that `ip` works while the rest is computed. A whole round waits for `ip` before nft begins: with
  // thousands of nodes, `ip` and nft each take as much memory as both may take here.
  const routes = attempt('routes', async () => {
    // Routes of an agent without the option would win over the cloud's.
    const routed = settings.isCloudRouted ? { peers: [], pods: [] } : view
    known.routeProblems = await settleRoutes(input, routed, routeRules(input))
    return []
  })
  if (kept === undefined) await routes
  await Promise.all([
    routes,
    attempt('rules', () => settleRules(input, view)),
    // A full disk must not stop the rest.
    attempt('memory', async () => keepMemory(input, view, memory)),
  ])
  if (isWhole) await attempt('earlier ranges', () => removeEarlier(input, view))
  return [...(known.routeProblems ?? []), ...view.problems]
}

/** Makes missing routes again while no list has this node: by the last agent's memory, once the table is unknown. */
async function keepRoutes(input: RoundInput, attempt: Attempt): Promise<readonly Problem[]> {
  const { known, settings } = input
  if (known.routes === undefined && !settings.isCloudRouted)
    await attempt('routes', async () => {
      await lookForRoutes(input)
      const peers = rememberedPeers(readMemory(settings.network, known.memory).memory)
      const view = { peers, pods: readCluster()?.pods ?? [] }
      known.routeProblems = await settleRoutes(input, view, { ...routeRules(input), isFromMemory: true })
      return []
    })
  return known.routeProblems ?? []
}

/** The text of /readyz until a whole list was read. */
export const notListed = 'waiting for the API server to list the nodes'

function waitingFor({ nodes, settings }: RoundInput, podCidrs: readonly string[]): string | undefined {
  if (nodes === undefined) return notListed
  if (!nodes.has(settings.node)) return `waiting for a Node named ${settings.node}`
  return podCidrs.length === 0 ? 'waiting for a podCIDR of the own node' : undefined
}

/** Decides the mode in whole rounds: pods come and go between them without a change of the mode. */
function settleMode({ known, settings, isWhole }: RoundInput): readonly Problem[] {
  if (isWhole || known.mode === undefined) known.mode = lookAtMode(settings)
  return known.mode.problems
}

/** The mode of new pods: while pods of the other mode live, it differs from the option. */
function modeNow({ known, settings }: RoundInput): Mode {
  return known.mode?.mode ?? settings.mode
}

async function settlePlace(input: RoundInput, podCidrs: readonly string[]): Promise<readonly Problem[]> {
  const { known, settings, isWhole } = input
  const mode = modeNow(input)
  const from = [mode, podCidrs.join()]
  if (isWhole || known.place === undefined || !from.every((each, at) => each === known.place?.from[at]))
    known.place = { from, value: lookAtPlace(settings, { mode, podCidrs }) }
  return known.place.value.problems
}

function viewOf(input: RoundInput, nodes: ReadonlyMap<string, ClusterNode>, memory: Memory): ClusterView {
  const { settings, known, apiServer = '' } = input
  const [self, today] = [settings.node, nodes.get(settings.node)?.podCidrs ?? []]
  const earlierPods = rangesInUse(memory, today, liveAddresses(memory, today))
  const all = [...nodes.values()]
  const allowOverlap = isOverlapAllowed(input)
  const here = lookHere(input)
  const from = [memory, earlierPods.join(), JSON.stringify(here), allowOverlap, apiServer, ...all]
  known.view = madeFrom(known.view, from, () => {
    const facts = { bounds: settings.clusterCidrs, here, allowOverlap, apiServer: addressOf(apiServer) }
    return clusterView({ self, nodes: all, remembered: memory.peers, earlierPods, ...facts })
  })
  return known.view.value
}

function routeRules(input: RoundInput): RouteRules {
  return { isRouted: modeNow(input) === 'ptp', allowOverlap: isOverlapAllowed(input) }
}

function isOverlapAllowed({ known }: RoundInput): boolean {
  return known.template?.good !== undefined && allowsOverlap(known.template.good)
}

/** Addresses of attachments; only read if the node ever had another range. */
function liveAddresses(memory: Memory, today: readonly string[]): readonly string[] {
  if (memory.own.every((range) => today.includes(range))) return []
  return allRecords().flatMap(({ record }) => record.spec?.ips.map(({ address }) => bareAddress(address)) ?? [])
}

async function settleRules(input: RoundInput, view: ClusterView): Promise<readonly Problem[]> {
  const { known } = input
  known.cluster = madeFrom(known.cluster, [view], () => clusterOf(view))
  await setCluster(known.cluster.value)
  return []
}

function clusterOf({ pods, peers }: ClusterView): Cluster {
  const ranges = peers.flatMap((peer) => peer.ranges)
  const addresses = peers.flatMap((peer) => peer.addresses)
  return { pods, peers: [...ranges].sort(), addresses: [...new Set(addresses)].sort() }
}

/** Removes the network as it was set up, once it has no pods, where ranges or mode are others by now. */
async function removeEarlier(input: RoundInput, { own }: ClusterView) {
  const { network } = input.settings
  const setUp = allNetworks().find(({ name }) => name === network)
  const hasOther = setUp?.ranges?.some((range) => !own.includes(range)) || (setUp && isOfOtherMode(setUp, input))
  if (own.length === 0 || !hasOther || allRecords().some(({ record }) => record.key.network === network)) return []
  const links = await removeUnused(network)
  input.log('info', 'removed what was for earlier ranges', { links, ranges: setUp?.ranges ?? [] })
  return []
}

function isOfOtherMode({ bridge }: { readonly bridge?: unknown }, input: RoundInput): boolean {
  return (bridge !== undefined) !== (modeNow(input) !== 'ptp')
}

/** Makes missing parts of the state again, by the code of `trestle restore`. */
async function repair(input: RoundInput): Promise<readonly Problem[]> {
  const { missing } = await restore(true)
  if (missing.length === 0) return []
  input.metrics.repairs.inc(missing.length)
  input.log('warning', 'repaired', { missing: missing.slice(0, 20), count: missing.length })
  return []
}

function contextOf({ signal }: RoundInput): CallContext {
  return openContext(signal)
}
