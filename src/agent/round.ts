// SPDX-License-Identifier: Apache-2.0
// A round: look at the node, decide by the Nodes, make routes, rules and configuration as they are to be. Every step can be
// repeated at any time, and a failed step does not stop the others. Nothing is remembered on disk.

import { toCniError } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import { type PoolUse, poolUse } from '../commands/pools.ts'
import { linkMtu, nodeAddresses, uplinkMtu } from '../kernel/proc.ts'
import { machineLockFile, networkNames } from '../state/layout.ts'
import { withLock } from '../state/lock.ts'
import { type AttachmentRecord, isDead, readNetwork, recordsOf } from '../state/records.ts'
import { type Context, openRemovingContext } from '../verbs/context.ts'
import { removeShared } from '../verbs/remove-network.ts'
import { restoreNetworks } from '../verbs/restore.ts'
import { addressOfServer } from './api.ts'
import { type ClusterDecision, decideCluster, type Problem, type Surroundings } from './cluster.ts'
import {
  emptyTemplate,
  type LookedTemplate,
  lookAtTemplate,
  missingPrograms,
  otherConfigurations,
  withdrawRanges,
  writeConfiguration,
} from './configuration.ts'
import type { Metrics } from './metrics.ts'
import { includes, parseAddress, type Range, rangeOf } from './node-ranges.ts'
import type { ClusterNode } from './nodes.ts'
import { changeDevice, clusterOf, deviceChanges, setCluster } from './overlay.ts'
import { onHost, settleProgram } from './program.ts'
import { log } from './report.ts'
import { type LookedRoutes, lookAtRoutes, readSigns, settleRoutes } from './routes.ts'
import type { AgentMode, Settings } from './settings.ts'

/** What a round leaves for the next one, in memory alone. */
export interface Known {
  /** What the last look saw, if it had nothing to change. */
  signs?: string | undefined
  looked?: LookedRoutes | undefined
  decision?: ClusterDecision
  template?: LookedTemplate
  /** What the kernel refused. */
  refused: readonly Problem[]
  /** Ranges that are nearly full, and pods with another MTU. */
  slow: readonly Problem[]
  fullRanges: readonly string[]
}

/**
 * `nodes`: absent until a whole list was read. `isChanged`: other Nodes than before. `isLook`: look whether anything on this
 * node has changed, and repair it; `isWhole`: also where no sign says so.
 */
export interface RoundInput {
  readonly settings: Settings
  readonly nodes: ReadonlyMap<string, ClusterNode> | undefined
  /** The URL that the nodes were read from. */
  readonly apiServer: string
  readonly isChanged: boolean
  readonly isLook: boolean
  readonly isWhole: boolean
  readonly known: Known
  readonly metrics: Metrics
  readonly nowMs: number
}

/** `waitsFor`: why /readyz says no. */
export interface RoundResult {
  readonly isDone: boolean
  readonly waitsFor: string | undefined
  readonly problems: readonly Problem[]
  readonly failures: readonly string[]
}

/** The text of /readyz until a whole list was read. */
export const notListed = 'waiting for the API server to list the nodes'

/** A step that fails is one of `failures`. Throws only where the state directory cannot be read: the agent starts again. */
export async function runRound(input: RoundInput): Promise<RoundResult> {
  const { settings, nodes, known } = input
  const failures: string[] = []
  const problems: Problem[] = []
  const attempt = async (what: string, step: () => Promise<readonly Problem[]> | Promise<void>) => {
    try {
      problems.push(...((await step()) ?? []))
    } catch (thrown) {
      const { message, details } = toCniError(thrown)
      failures.push(`${what}: ${message}${details === undefined ? '' : ` (${details.trim().split('\n')[0]})`}`)
    }
  }
  // A list without this node is another cluster's, or of a cluster that lost its nodes: pods keep their routes.
  const ownNode = nodes?.get(settings.node)
  const pods = lookAtPods(settings, ownNode)
  await attempt('template', async () => settleTemplate(input, pods))
  const signs = input.isLook ? await lookForSigns(input, pods) : undefined
  const isAsSeen = input.isLook ? signs !== undefined && signs === known.signs : true
  const isQuiet = isAsSeen && !input.isChanged && !input.isWhole
  if (!isQuiet) {
    if (input.isLook) known.signs = signs
    await attempt('routes', async () => {
      // Where Nodes alone have changed, what was seen last is still so.
      if (input.isLook || known.looked === undefined)
        known.looked = await lookAtRoutes(open(settings).machine.ask, known.looked)
      if (nodes !== undefined && ownNode !== undefined)
        known.decision = decide(input, [...nodes.values()], known.looked, pods)
    })
    await attempt('network', () => settleNetwork(input, pods, ownNode))
    if (input.isLook)
      await attempt('pools', async () => {
        known.slow = lookSlowly(input)
      })
  }
  const { decision } = known
  problems.push(...pods.problems, ...(ownNode === undefined ? [] : (decision?.problems ?? [])), ...known.refused)
  if (pods.isOver) await attempt('former network', () => removeFormer(settings))
  problems.push(...known.slow)
  await attempt('programs', async () => missingPrograms(settings, known.template?.good ?? emptyTemplate))
  await attempt('executable', () => settleExecutable(input))
  const waitsFor = waitingFor(input, ownNode, pods, problems)
  // Last: a node is ready as soon as it has a configuration.
  await attempt('configuration', async () => settleConfiguration(input, decision, pods, problems, failures))
  if (failures.length > 0) known.signs = undefined
  return { isDone: failures.length === 0 && waitsFor === undefined, waitsFor, problems, failures }
}

function open({ hostRoot }: Settings): Context {
  return openRemovingContext({ wrap: onHost(hostRoot) })
}

/** `earlier`: ranges of live pods that the Node has no more. `isOver`: the former network has no pod any more. */
interface Pods {
  readonly mode: AgentMode
  readonly earlier: readonly Range[]
  readonly isOver: boolean
  readonly isSetUp: boolean
  readonly moved?: string
  readonly problems: readonly Problem[]
}

const drainText = 'drain this node, then delete its remaining pods or reboot it'

/** A Node's ranges and mode are fixed while it has pods: compares those of the options with the network as it is set up. */
function lookAtPods({ node, network, mode }: Settings, ownNode: ClusterNode | undefined): Pods {
  const known = networkNames().length === 0 ? undefined : readNetwork({ name: network, role: 'main' })
  const own = (ownNode?.ranges ?? []).flatMap(({ range }) => (typeof range === 'string' ? [] : range.text))
  if (known === undefined || own.length === 0) return { mode, earlier: [], isOver: false, isSetUp: false, problems: [] }
  const isSetUp = own.every((range) => known.ranges.includes(range))
  const others = known.ranges.filter((range) => !own.includes(range))
  if (others.length === 0 && known.mode === mode) return { mode, earlier: [], isOver: false, isSetUp, problems: [] }
  const live = liveRecords(network)
  const addresses = live.flatMap(({ spec }) => spec?.addresses ?? [])
  const hasPods = (range: Range) =>
    addresses.some(({ address }) => {
      const parsed = parseAddress(address.split('/')[0] ?? '')
      return parsed !== undefined && includes(range, parsed)
    })
  const earlier = others.flatMap((text) => rangeOf(text) ?? []).filter(hasPods)
  if (live.length === 0) return { mode, earlier: [], isOver: true, isSetUp, problems: [] }
  const problems: Problem[] = []
  const theirs = earlier.map(({ text }) => text).join(' and ')
  const refusal = `new ones of ${own.join(', ')} are refused beside them: ${drainText}`
  const moved = earlier.length === 0 ? undefined : `pods here have addresses of ${theirs}: ${refusal}`
  if (moved !== undefined) problems.push({ id: 'MovedPodCIDR', node, text: moved })
  const lived = known.mode === 'ptp' ? 'ptp' : 'bridge'
  if (lived !== mode) {
    const text = `pods here are of mode ${lived}, and so are new ones: ${drainText}, for mode ${mode}`
    problems.push({ id: 'ModeChanged', node, text })
  }
  return { mode: lived, earlier, isOver: false, isSetUp, ...(moved === undefined ? {} : { moved }), problems }
}

function liveRecords(network: string): readonly AttachmentRecord[] {
  return recordsOf(network).filter(
    (record) => record.id.role === 'main' && record.spec !== undefined && !isDead(record),
  )
}

async function settleTemplate({ settings, known }: RoundInput, { mode }: Pods): Promise<readonly Problem[]> {
  const { own = [], mtu } = known.decision ?? {}
  const ranges = own.map(({ text }) => text)
  known.template = lookAtTemplate(settings, { mode, ranges, mtu }, known.template)
  const { wrong } = known.template
  if (wrong === undefined) return []
  return [{ id: 'BadTemplate', node: settings.node, text: `${wrong}: the configuration stays as it was` }]
}

/** Undefined where not all can be seen. */
async function lookForSigns(
  { settings, known }: RoundInput,
  { mode, isOver, earlier }: Pods,
): Promise<string | undefined> {
  const signs = await readSigns(open(settings).machine.ask).catch(() => undefined)
  const mtus = mtusOf(known.looked?.routes ?? [])
  const others = [mode, isOver, earlier.map(({ text }) => text), known.template?.seen]
  return signs && JSON.stringify([signs, [...mtus], ...others])
}

/** Overlay, routes and rules by the decision, and then what else is missing. */
async function settleNetwork(input: RoundInput, pods: Pods, ownNode: ClusterNode | undefined): Promise<void> {
  const { settings, known, metrics } = input
  const { decision, looked } = known
  if (decision !== undefined && looked !== undefined) {
    const { wanted, kept, peers, own } = decision
    const refused = await settleOverlay(input, decision, looked)
    metrics.routes.set(wanted.length)
    metrics.overlayRoutes.set(wanted.filter(({ remote }) => remote !== undefined).length)
    const request = { wanted, kept, isStale: ownNode === undefined, isOverlayUsable: refused.length === 0 }
    const { made, refusals, looked: now } = await settleRoutes(open(settings).machine.ask, looked, request)
    if (made.length > 0) log('info', 'routes changed', { changes: made.slice(0, 20), count: made.length })
    metrics.routeChanges.inc(made.length)
    known.refused = [
      ...refused,
      ...refusals.map(({ change, text }): Problem => {
        return { id: 'RouteRefused', node: settings.node, text: `could not ${change.why}: ${text}` }
      }),
    ]
    if (known.looked !== undefined) known.looked = now
    if (made.length > 0 || refusals.length > 0) known.signs = undefined
    const others = { earlier: pods.earlier, kept: [...kept].map(({ range }) => range) }
    const cluster = clusterOf({ own, peers }, others, settings.overlay)
    if (ownNode !== undefined && (await setCluster(cluster, () => open(settings)))) known.signs = undefined
  }
  if (input.isLook) await repair(input)
}

function decide(
  { settings, apiServer, known, nowMs }: RoundInput,
  nodes: readonly ClusterNode[],
  { routes }: LookedRoutes,
  { earlier, mode }: Pods,
): ClusterDecision {
  const { node: self, clusterRanges: bounds, overlay, isCloudRouted } = settings
  const here: Surroundings = { routes, addresses: ownAddresses(), mtus: mtusOf(routes) }
  const allowOverlap = known.template?.good?.own['allowOverlap'] === true
  const since = known.decision?.since ?? new Map()
  const settled = { self, bounds, overlay, isCloudRouted, isRouted: mode === 'ptp', allowOverlap }
  const now = decideCluster({ ...settled, nodes, here, earlier, nowMs, since, apiServer: addressOfServer(apiServer) })
  // While there is no other node the MTU stays: the pods here have it.
  return { ...defined({ mtu: known.decision?.mtu }), ...now }
}

function ownAddresses(): Surroundings['addresses'] {
  return new Map(
    [...nodeAddresses()].flatMap((text) => {
      const address = parseAddress(text)
      return address === undefined ? [] : [[address.text, address] as const]
    }),
  )
}

function mtusOf(routes: LookedRoutes['routes']): ReadonlyMap<string, number> {
  const devs = new Set(routes.flatMap(({ dev, isUnicast }) => (dev !== undefined && isUnicast ? [dev] : [])))
  const mtus = [...devs]
    .filter((dev) => !/^(veth|ifb|cni|trestle0$|lo$)/.test(dev))
    .map((dev) => [dev, linkMtu(dev)] as const)
  return new Map(mtus.flatMap(([dev, mtu]) => (mtu === undefined ? [] : [[dev, mtu] as const])))
}

async function settleOverlay(
  { settings, known }: RoundInput,
  decision: ClusterDecision,
  { device }: LookedRoutes,
): Promise<readonly Problem[]> {
  const lines = deviceChanges(device, settings.overlay, decision)
  if (lines.length === 0) return []
  known.signs = undefined
  known.looked = undefined
  try {
    await changeDevice(open(settings).machine.ask, lines)
    log('info', 'overlay changed', { changes: lines.map((words) => words.join(' ')) })
    return []
  } catch (error) {
    const { message, details } = toCniError(error)
    return [{ id: 'OverlayFails', node: settings.node, text: `${message}: ${details}` }]
  }
}

/** Makes what is missing again, by the code of `trestle restore`. */
async function repair({ settings, known, metrics }: RoundInput): Promise<void> {
  const { missing } = await restoreNetworks(open(settings))
  if (missing.length === 0) return
  known.signs = undefined
  metrics.repairs.inc(missing.length)
  log('warning', 'repaired', { missing: missing.slice(0, 20), count: missing.length })
}

/** Removes the network of other ranges, or of another mode, when its last pod has gone. */
async function removeFormer(settings: Settings): Promise<void> {
  const { machine, deadline } = open(settings)
  const lock = { file: machineLockFile(), purpose: `remove network ${settings.network}`, deadline }
  const errors = await withLock(lock, async () => {
    const former = readNetwork({ name: settings.network, role: 'main' })
    if (former === undefined || recordsOf(settings.network).length > 0) return []
    log('info', 'removed what was for earlier ranges', { ranges: former.ranges, mode: former.mode })
    return await removeShared([former], machine)
  })
  if (errors[0] !== undefined) throw errors[0]
}

async function settleExecutable({ settings }: RoundInput): Promise<readonly Problem[]> {
  const installed = (what: string, file: string) => log('info', `${what} installed`, { file })
  const refused = await settleProgram({ ...settings, installed }, open(settings).machine.ask)
  if (refused === undefined) return []
  const text = `the host cannot run this version, ${settings.binDir}/trestle stays as it is: ${refused}`
  return [{ id: 'ProgramFails', node: settings.node, text }]
}

/** By all records: how full the pools are, and whether pods have the MTU that new ones get. */
function lookSlowly({ settings, known }: RoundInput): readonly Problem[] {
  const { decision } = known
  if (decision === undefined || decision.own.length === 0) return []
  const { node, network } = settings
  const pools = poolUse(
    network,
    decision.own.map(({ text }) => text),
  )
  // Less until it is over: a pod that comes and goes is no new problem each time.
  const isFull = ({ range, taken, total }: PoolUse) =>
    taken >= total * (known.fullRanges.includes(range) ? fullUntil : fullFrom)
  const full = pools.filter(isFull)
  known.fullRanges = full.map(({ range }) => range)
  const templateMtu = known.template?.good?.own['mtu']
  const asked = typeof templateMtu === 'number' && templateMtu > 0 ? templateMtu : undefined
  const mtu = asked ?? decision.mtu ?? uplinkMtu()
  const others = liveRecords(network).flatMap(({ spec }) => (spec?.pod && spec.pod.mtu !== mtu ? [spec.pod.mtu] : []))
  const theirs = [...new Set(others)].sort((a, b) => a - b).join(', ')
  const text = `new pods get MTU ${mtu}, pods here have ${theirs}: start these again`
  return [
    ...full.map(({ range, total }) => nearlyFull(node, range, total)),
    ...(mtu === undefined || others.length === 0 ? [] : [{ id: 'MtuChanged', node, text } as const]),
  ]
}

const fullFrom = 0.9
const fullUntil = 0.8

function nearlyFull(node: string, range: string, total: number): Problem {
  const text = `nine of ten of the ${total} addresses of ${range} are in use: soon no further pod starts; see trestle gc`
  return { id: 'PoolNearlyFull', node, text }
}

/** Why new pods get no network, or one that does not work. */
function waitingFor(
  { nodes, settings, known }: RoundInput,
  ownNode: ClusterNode | undefined,
  { moved, isSetUp }: Pods,
  problems: readonly Problem[],
): string | undefined {
  const textOf = (...ids: readonly Problem['id'][]) =>
    problems.find(({ id, node }) => ids.includes(id) && node === settings.node)?.text
  const unfit = textOf('NoProgram', 'ProgramFails')
  if (unfit !== undefined) return unfit
  if (nodes === undefined) return notListed
  if (ownNode === undefined) return `waiting for a Node named ${settings.node}`
  if ((known.decision?.own.length ?? 0) === 0) return textOf('BadPodCIDR') ?? 'waiting for a podCIDR of the own node'
  // A network that is set up with the ranges goes on: one faulty Node must not take the others out of service.
  return textOf('BadTemplate') ?? moved ?? (isSetUp ? undefined : textOf('OverlappingPodCIDR', 'OverlapsHost'))
}

function settleConfiguration(
  { settings, known }: RoundInput,
  decision: ClusterDecision | undefined,
  { mode, isSetUp }: Pods,
  problems: readonly Problem[],
  failures: readonly string[],
): readonly Problem[] {
  if (decision === undefined) return []
  const good = known.template?.good
  const isUnfit = problems.some(({ id }) => id === 'NoProgram' || id === 'ProgramFails')
  // Two Nodes have the range: the younger one's new pods would get addresses of the elder's.
  const own = decision.isYounger && !isSetUp ? [] : decision.own.map(({ text }) => text)
  if (good === undefined || isUnfit || failures.length > 0 || own.length === 0) {
    if (withdrawRanges(settings, own)) log('warning', 'configuration written', { podCidrs: [] })
    return otherConfigurations(settings)
  }
  if (writeConfiguration(settings, good, { mode, ranges: own, mtu: decision.mtu }))
    log('info', 'configuration written', { podCidrs: own, mtu: decision.mtu })
  return otherConfigurations(settings)
}
