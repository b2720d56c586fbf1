// SPDX-License-Identifier: Apache-2.0
// One round: what the cluster says and state says, against what the node has. Every step can be done again at any time,
// and what one cannot do keeps none of the others from being done.

import { uptime } from 'node:os'
import { bareAddress, familyOf } from '../../../cni/model/address.ts'
import { toCniError } from '../../../cni/model/error.ts'
import { setCluster } from '../../../commands/attach/cluster.ts'
import { type CallContext, openContext } from '../../../commands/call/context.ts'
import { removeFormer } from '../../../commands/teardown/remove-former.ts'
import { restore } from '../../../commands/verbs/restore.ts'
import type { ClusterNode } from '../../../plan/agent/cluster-node.ts'
import { type ClusterView, clusterView } from '../../../plan/agent/cluster-view.ts'
import { type Memory, rangesInUse, remember } from '../../../plan/agent/memory.ts'
import type { NodeRoute } from '../../../plan/agent/node-route.ts'
import { type MtuWanted, mtuProblems } from '../../../plan/agent/pod-mtu.ts'
import type { Problem } from '../../../plan/agent/problem.ts'
import { planRoutes, type RoutePlan } from '../../../plan/agent/routes.ts'
import { routesAfter } from '../../../plan/agent/routes-after.ts'
import { templateMtu } from '../../../plan/agent/template.ts'
import { modeOf } from '../../../plan/modes/modes.ts'
import type { Cluster } from '../../../plan/rules/cluster-elements.ts'
import { uplinkMtu } from '../../../system/kernel/uplink.ts'
import { allRecords } from '../../../system/store/records.ts'
import { type KeptMemory, readMemory, writeMemory } from '../node/memory.ts'
import { changeRoutes, type LookedRoutes, lookAtRoutes } from '../node/routes.ts'
import type { Settings } from '../settings/settings.ts'
import type { KeptTemplate } from '../settings/template.ts'
import { missingPrograms, settleConfiguration, settleExecutable, settleTemplate } from './files-step.ts'
import type { Log } from './log.ts'
import { type Made, madeFrom } from './made.ts'
import type { Metrics } from './metrics.ts'

/**
 * What a round leaves to the next one, so that a node's change costs no look at the machine. Whatever tells of a change
 * by others takes it away again. `routes`: the main table as it is, or will be when the changes under way are made.
 * `looked` and what is `Made` need not be taken away: each is used only where what it was made from is the same.
 */
export interface Known {
  memory?: KeptMemory | undefined
  routes?: readonly NodeRoute[] | undefined
  looked?: LookedRoutes
  view?: Made<ClusterView>
  cluster?: Made<Cluster>
  plan?: Made<RoutePlan>
  remembered?: Made<Memory>
  mtu?: { readonly wanted: MtuWanted; readonly problems: readonly Problem[] }
  template?: KeptTemplate
}

/** What a round works with. `nodes`: absent until a whole list was read: then nothing of the cluster is changed. */
export interface RoundInput {
  readonly settings: Settings
  readonly nodes: ReadonlyMap<string, ClusterNode> | undefined
  /** Whether everything that state says is looked at, or the cluster's part alone. */
  readonly isWhole: boolean
  readonly known: Known
  readonly signal: AbortSignal
  readonly log: Log
  readonly metrics: Metrics
}

/** `isDone`: configuration, rules and routes stand. `bridges`: names of those that are ours. */
export interface RoundResult {
  readonly isDone: boolean
  readonly waitsFor: string | undefined
  readonly problems: readonly Problem[]
  readonly failures: readonly string[]
}

/** Runs a round. Never rejects. */
export async function runRound(input: RoundInput): Promise<RoundResult> {
  const failures: string[] = []
  const problems: Problem[] = []
  const attempt = async (what: string, step: () => Promise<readonly Problem[]>) => {
    try {
      problems.push(...(await step()))
    } catch (thrown) {
      const { message, details } = toCniError(thrown)
      failures.push(`${what}: ${message}${details === undefined ? '' : ` (${details.trim().split('\n')[0]})`}`)
    }
  }
  const kept = input.isWhole ? undefined : input.known.memory
  const memory = kept ?? readMemory(input.known.memory)
  // A list without this node is of another cluster, or of one that has lost its nodes: pods keep what they have.
  const isListed = input.nodes?.has(input.settings.node) === true
  const view = isListed && input.nodes !== undefined ? viewOf(input, input.nodes, memory.memory) : undefined
  if (view !== undefined) {
    problems.push(...view.problems)
    // The routes first: `ip` is at work on them while the rest is computed. Where nobody waits for one node's change
    // it ends before nft begins: with thousands of nodes each of the two has as much memory as all of them have here.
    const routes = input.settings.isCloudRouted ? undefined : attempt('routes', () => settleRoutes(input, view))
    if (kept === undefined) await routes
    await Promise.all([
      routes,
      attempt('rules', () => settleRules(input, view)),
      // A full disk is no reason to leave the rest undone.
      attempt('memory', async () => keepMemory(input, view, memory)),
    ])
  }
  if (input.isWhole && view !== undefined)
    await attempt('earlier ranges', () => removeEarlier(input, view, memory.memory))
  if (input.isWhole) await attempt('repair', () => repair(input))
  const ranges = view?.own ?? []
  await attempt('template', async () => settleTemplate(input, ranges))
  await attempt('MTU', async () => lookAtMtu(input, ranges))
  await attempt('programs', async () => missingPrograms(input.settings))
  await attempt('executable', () => settleExecutable(input, contextOf(input).run))
  // Pods of a node that cannot run the plugin would fail one after the other.
  const unfit = problems.find(({ id }) => id === 'NoProgram' || id === 'ProgramFails')?.text
  // Last: a node is ready as soon as it has a configuration.
  if (failures.length === 0 && unfit === undefined && ranges.length > 0)
    await attempt('configuration', async () => settleConfiguration(input, ranges))
  const waitsFor = unfit ?? waitingFor(input, view) ?? problems.find(({ id }) => id === 'BadTemplate')?.text
  return { isDone: failures.length === 0 && waitsFor === undefined, waitsFor, problems, failures }
}

/** What a round waits for until there is a whole list. */
export const notListed = 'waiting for the API server to list the nodes'

function waitingFor({ nodes, settings }: RoundInput, view: ClusterView | undefined): string | undefined {
  if (nodes === undefined) return notListed
  if (!nodes.has(settings.node)) return `waiting for a Node named ${settings.node}`
  return view === undefined || view.own.length === 0 ? 'waiting for a podCIDR of the own node' : undefined
}

function viewOf({ settings, known }: RoundInput, nodes: ReadonlyMap<string, ClusterNode>, memory: Memory): ClusterView {
  const [self, today] = [settings.node, nodes.get(settings.node)?.podCidrs ?? []]
  const earlierPods = rangesInUse(memory, today, liveAddresses(memory, today))
  const all = [...nodes.values()]
  known.view = madeFrom(known.view, [memory, earlierPods.join(), ...all], () =>
    clusterView({ self, nodes: all, remembered: memory.peers, earlierPods }),
  )
  return known.view.value
}

/** Addresses of attachments; not read where the node never had another range. */
function liveAddresses(memory: Memory, today: readonly string[]): readonly string[] {
  if (memory.own.every((range) => today.includes(range))) return []
  return allRecords().flatMap(({ record }) => record.spec?.ips.map(({ address }) => bareAddress(address)) ?? [])
}

function keepMemory({ known }: RoundInput, view: ClusterView, before: KeptMemory): readonly Problem[] {
  const nowMs = Math.round(uptime() * 1000)
  // Nodes that are gone are forgotten after a time.
  const isWaiting = before.memory.peers.some(({ goneSinceMs }) => goneSinceMs !== undefined)
  const { peers, own } = view
  known.remembered = madeFrom(known.remembered, [view, before.memory, isWaiting && nowMs], () =>
    remember(before.memory, { peers, own, nowMs }),
  )
  known.memory = undefined
  known.memory = writeMemory(known.remembered.value, before)
  return []
}

async function settleRules(input: RoundInput, view: ClusterView): Promise<readonly Problem[]> {
  const { known } = input
  known.cluster = madeFrom(known.cluster, [view], () => clusterOf(view))
  await setCluster(contextOf(input), known.cluster.value)
  return []
}

function clusterOf({ pods, peers }: ClusterView): Cluster {
  const ranges = peers.flatMap((peer) => peer.ranges)
  const addresses = peers.flatMap((peer) => peer.addresses)
  return { pods, peers: [...ranges].sort(), addresses: [...new Set(addresses)].sort() }
}

async function settleRoutes(input: RoundInput, view: ClusterView): Promise<readonly Problem[]> {
  const { settings, metrics, log, known } = input
  const { run } = contextOf(input)
  if (known.routes === undefined) known.looked = await lookAtRoutes(run, known.looked)
  const routes = known.routes ?? known.looked?.routes ?? []
  known.plan = madeFrom(known.plan, [view, routes], () => planOf(settings, view, routes))
  const plan = known.plan.value
  metrics.routes.set(plan.wanted)
  // Known beforehand: the kernel tells of the first change before the last one is made.
  known.routes = routesAfter(routes, plan.changes)
  const refused = await changeRoutes(run, plan.changes, settings.node)
  if (refused.length > 0) known.routes = undefined
  if (plan.changes.length > 0) {
    metrics.routeChanges.inc(plan.changes.length)
    log('info', 'routes changed', {
      changes: plan.changes.slice(0, 20).map(({ why }) => why),
      count: plan.changes.length,
    })
  }
  return [...plan.problems, ...refused]
}

function planOf(settings: Settings, { peers, pods }: ClusterView, routes: readonly NodeRoute[]): RoutePlan {
  return planRoutes({ self: settings.node, peers, pods, routes, isRouted: modeOf(settings).isRouted })
}

/** Pods with addresses of an earlier range are gone: what is left of it on the node would keep it from another one. */
async function removeEarlier(input: RoundInput, { own, pods }: ClusterView, memory: Memory) {
  const ranges = memory.own.filter((range) => !pods.includes(range))
  if (own.length === 0 || ranges.length === 0) return []
  const links = await removeFormer(contextOf(input), { network: input.settings.network, ranges })
  if (links.length > 0) input.log('info', 'removed what was for earlier ranges', { links, ranges })
  return []
}

/** What state says and the node does not have is made again, by the same code as `trestle restore`. */
async function repair(input: RoundInput): Promise<readonly Problem[]> {
  const { missing } = await restore(contextOf(input), true)
  if (missing.length === 0) return []
  input.metrics.repairs.inc(missing.length)
  input.log('warning', 'repaired', { missing: missing.slice(0, 20), count: missing.length })
  return []
}

/** What pods have is read where new ones get another MTU than at the last look, and in whole rounds. */
function lookAtMtu({ known, settings, isWhole }: RoundInput, ranges: readonly string[]): readonly Problem[] {
  // What new pods get is not known before their ranges are.
  if (ranges.length === 0) return known.mtu?.problems ?? []
  const packets = ranges.every((range) => familyOf(range) === 4) ? 'IPv4' : 'any'

  const asked = known.template?.good === undefined ? undefined : templateMtu(known.template.good)
  const wanted: MtuWanted =
    asked === undefined ? { bytes: uplinkMtu(packets), by: 'uplink' } : { bytes: asked, by: 'template' }
  if (isWhole || known.mtu === undefined || known.mtu.wanted.bytes !== wanted.bytes) {
    const specs = allRecords().flatMap(({ record }) =>
      record.key.network === settings.network ? (record.spec ?? []) : [],
    )
    const pods = specs.flatMap((spec) => (spec.chained === undefined ? spec.mtu : []))
    known.mtu = { wanted, problems: mtuProblems(settings.node, wanted, pods) }
  }
  return known.mtu.problems
}

function contextOf({ signal }: RoundInput): CallContext {
  return openContext(signal)
}
