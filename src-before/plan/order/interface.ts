// SPDX-License-Identifier: Apache-2.0
// The plans of an ADD that makes an interface, and what their outcomes mean.
// commands/attach/interface.ts has their order.

import { familyOf } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import type { FeatureConf } from '../../config/net-conf.ts'
import { hostOps, leasedHostOps } from '../../drivers/attach.ts'
import { mostBridgePorts, ownMacOps } from '../../drivers/bridge.ts'
import { driverOf } from '../../drivers/drivers.ts'
import { fastPathBridgeOps } from '../../drivers/network.ts'
import { subnetSourceOf } from '../../drivers/specs.ts'
import { subnetsOf } from '../../drivers/subnets.ts'
import type { FlowSelections } from '../../features/port-flows.ts'
import type { AttachmentSpec, NetworkSpec } from '../../model/attachment.ts'
import type { Op } from '../../model/op.ts'
import type { AddFacts, NetworkFacts } from './facts.ts'
import type { SetUp } from './set-up.ts'
import {
  type Failure,
  isDone,
  opsOf,
  outcomeOf,
  type Plan,
  type PlanRun,
  planOf,
  planOfOne,
  type Stage,
} from './stage.ts'
import { lastStages, type PodSide, podStages, type RuleStages, ruleStages } from './stages.ts'

/** An interface that is written down. `networks`: all of the machine, read after the intent. */
export interface Making {
  readonly facts: AddFacts
  readonly spec: AttachmentSpec
  readonly wanted: NetworkSpec
  readonly networks: readonly NetworkSpec[]
}

/** A plan, and the stages whose outcomes decide about the next one. */
interface UsualPlan {
  readonly plan: Plan
  readonly links: Stage
  readonly rules: RuleStages
  readonly side: PodSide
}

/** All of it at once: rules beside links, without a look beforehand. */
export function usualPlan(making: Making): UsualPlan {
  const { facts, spec, wanted, networks } = making
  const bridge = ownBridgeMacOps(making)
  // Said with what is said of it anyway: a line more for a process that runs.
  const shows = bridge.flatMap((op): Op[] => ('dev' in op ? [showBridge(op.dev)] : []))
  const ops = [...fastPathBridgeOps(wanted), ...ownOps(facts, spec), ...shows]
  const rules = ruleStages(spec, networks)
  const links: Stage = {
    id: 'links',
    run: { kind: 'batch', ops },
    after: [],
    ...(wanted.bridge && shows.length > 0
      ? { proof: { kind: 'same bridge', bridge: wanted.bridge.name, mac: wanted.bridge.mac } as const }
      : {}),
  }
  const { side, stages } = podAndRest(making, { links: [links], rules: rules.all })
  const because = 'the network is set up as it is configured'
  return { plan: planOf({ id: 'usual', because, stages: [links, ...rules.all, ...stages] }), links, rules, side }
}

/** The pod's side of a network that was just set up. */
export function podPlan(making: Making): Pick<UsualPlan, 'plan' | 'side'> {
  const { side, stages } = podAndRest(making, { links: [], rules: [] })
  return { plan: planOf({ id: 'pod', because: 'the network is set up now', stages }), side }
}

/** `before`: stages of the same plan. The pod's side waits for the links; its tools start with the first rules. */
function podAndRest({ facts, spec }: Making, before: Readonly<Record<'links' | 'rules', readonly Stage[]>>) {
  const [links, rules] = [before.links.map(({ id }) => id), before.rules.map(({ id }) => id)]
  const starts = [...links, ...rules.slice(0, 1)]
  const side = podStages(spec, { after: links, starts, isMade: facts.isMade })
  const all = [...links, ...rules, ...side.all.map(({ id }) => id)]
  return { side, stages: [...side.all, ...lastStages(spec, all, warnsOf(facts.conf))] }
}

/** Whether processes of the node that listen on the pod's ports are reported; else they were looked for before. */
export function warnsOf({ portmap }: FeatureConf): boolean {
  return portmap?.onListening !== 'refuse'
}

/** Goes on with the pod's side after failures that `cures` answer, the last one now; then the skipped stages of it. */
export function curedPodPlan({ pod, all }: PodSide, run: PlanRun, cures: readonly Cure[]): Plan {
  const done = outcomeOf(run, pod)?.done ?? []
  const last = cures.at(-1)
  const isLeftOut = (op: Op) => cures.some((cure) => 'skips' in cure && cure.skips(op))
  const rest = opsOf({ stages: [pod] }).filter((op) => !done.includes(op) && !isLeftOut(op))
  const skipped = all.filter((stage) => outcomeOf(run, stage)?.skipped)
  const fix = last && 'fix' in last ? last.fix : []
  // Where it does not help, the same operation fails once more and tells why.
  const cure: Stage = { id: 'cure', run: { kind: 'batch', ops: fix, tolerates: 'refusals' }, after: [] }
  const isFixed = fix.length > 0
  return {
    id: 'pod',
    because: 'the pod has a default route, or no IPv6',
    stages: [
      ...(isFixed ? [cure] : []),
      // Also without an operation: its outcome takes the place of the failure.
      { id: pod.id, run: { kind: 'batch', ops: rest }, after: isFixed ? [cure.id] : [], anyway: true },
      ...skipped.map(({ id, run: skippedRun }) => ({ id, run: skippedRun, after: [pod.id] })),
    ],
  }
}

export function orphanLinkPlan(links: readonly string[]): Plan {
  const ops = links.map((dev): Op => ({ in: 'host', kind: 'link.del', dev, why: `remove the orphan ${dev}` }))
  return planOfOne('remove what is left', 'a link of this attachment is left without a record', { kind: 'batch', ops })
}

/** The set-up that the attachment needs. `tried`: the failure of its links in the usual plan. */
export function settingOf(making: Making, tried: Failure | undefined): SetUp {
  const { facts, spec, wanted } = making
  const { port, ips } = spec
  return {
    ...(port && { port }),
    network: wanted,
    subnetSource: subnetSourceOf(facts.conf),
    own: (shared) => ownStillMissing(making, tried, shared),
    mayOverlap: facts.conf.allowOverlap,
    key: facts.key,
    subnets: subnetsOf(facts.conf, ips),
    abandoned: facts.ranges.abandoned,
    isOtherBridge: tried?.reason === 'unproven',
  }
}

/** The pair was made where a later line of the same batch failed; where its own line failed, it is in the way. */
function ownStillMissing({ facts, spec }: Making, tried: Failure | undefined, { links }: NetworkFacts): readonly Op[] {
  const own = ownOps(facts, spec)
  if (tried === undefined) return own
  if (tried.reason === 'unproven') return []
  const hasPair = spec.host !== undefined && links.has(spec.host.name)
  return hasPair && tried.op?.kind !== 'veth.add' ? own.filter(({ kind }) => kind !== 'veth.add') : own
}

function ownOps({ isMade }: AddFacts, spec: AttachmentSpec): readonly Op[] {
  return isMade ? leasedHostOps(spec) : hostOps(spec)
}

/** The MAC of a bridge of our making: that of another one may be anything. */
function ownBridgeMacOps({ facts, wanted: { bridge } }: Making): readonly Op[] {
  return bridge === undefined ? [] : ownMacOps(bridge, facts.machineId)
}

/** Its addresses are not asked for: in a batch `ip` has those of all links listed (ip/ip.c, rtnl_set_strict_dump). */
function showBridge(dev: string): Op {
  return { in: 'host', kind: 'link.show', dev, why: `see that ${dev} is the bridge it was` }
}

// What stands in the way of an ADD and is told to the runtime.

/**
 * Whether a pair could not be made because the pod, or the host, has a link of that name. Of a limited pod the ifb
 * stays on the host when its pair goes with the pod.
 */
export function isPairTaken({ op, reason }: Failure): boolean {
  return (op?.kind === 'veth.add' || op?.kind === 'ifb.add') && reason === 'exists'
}

interface Whose extends Pick<AddFacts, 'key' | 'netns'> {
  readonly spec: AttachmentSpec
  readonly network: NetworkSpec
}

/**
 * What a failure means that no look and no repair changes: CniError 108, 7 or 4. The kernel tells that a bridge is
 * full: it counts the ports of others too, and at the moment of the call, where a count of ours would come too early.
 */
export function conflictOf({ op, reason, error }: Failure, whose: Whose): CniError | undefined {
  if (op?.kind === 'veth.add' && reason === 'full') return bridgeFull(whose.network, error)
  const ofMode = op && driverOf(whose.spec).refusalOf?.(whose.spec, { op, reason, error })
  if (ofMode !== undefined) return ofMode
  return op?.kind === 'link.name' && reason === 'exists' ? interfaceExists(whose, error) : undefined
}

function bridgeFull({ bridge }: NetworkSpec, cause: Error): CniError {
  const name = bridge?.name ?? ''
  return new CniError('bridge-ports-full', `bridge ${name} is full: it has ${mostBridgePorts} ports`, {
    details:
      `Linux allows no more on one bridge; use a second network with another "bridge", or see what ` +
      `is plugged in: ip link show master ${name}`,
    cause,
  })
}

export function interfaceExists({ key, netns }: Pick<AddFacts, 'key' | 'netns'>, cause: Error): CniError {
  const { ifName } = key
  const details = cause instanceof CniError ? (cause.details ?? '') : ''
  // The kernel refuses to remove it.
  const removal = ifName === 'lo' ? '' : `, or remove it: nsenter --net=${netns} ip link del ${ifName}`
  return new CniError(
    'interface-name-taken',
    `CNI_IFNAME ${ifName}: an interface of that name is already in ${netns}`,
    { details: `choose another name${removal}\n${details}`, cause },
  )
}

// Two things found in a pod are no failure: a default route that someone else made, and IPv6 switched off where we are
// to add an address.

/** What to do about a failed operation: leave out those that `skips`, or run `fix` and go on with the same one. */
export type Cure = { readonly skips: (op: Op) => boolean } | { readonly fix: readonly Op[] }

/** The cure for a failure in a pod, if there is one. `isFixed`: a fix was made before. */
export function cureInPod({ op: failed, reason }: Failure, isFixed: boolean): Cure | undefined {
  if (failed === undefined) return undefined
  if (failed.kind === 'route.add' && failed.onlyIfNone && reason === 'exists') return { skips: sameDefault(failed) }
  // EACCES from an IPv6 address means disable_ipv6 (net/ipv6/addrconf.c, addrconf_add_dev).
  const isIpv6Off = failed.kind === 'addr.replace' && familyOf(failed.cidr) === 6 && reason === 'denied'
  return isIpv6Off && !isFixed ? { fix: ['lo', failed.dev].map(enableIpv6) } : undefined
}

/** The refused default route, and those of ours beside it. */
function sameDefault(taken: Extract<Op, { kind: 'route.add' }>): (op: Op) => boolean {
  return (op) => op.kind === 'route.add' && op.onlyIfNone && op.route.dst === taken.route.dst
}

function enableIpv6(dev: string): Op {
  const key = `net/ipv6/conf/${dev}/disable_ipv6`
  return { in: 'pod', kind: 'sysctl.pod', key, value: '0', why: `switch IPv6 of ${dev} on` }
}

// The plans that an ADD may end with: stages that waited for rules, flows and default routes older than the ADD.

/** The last stages that had to wait for rules that were built anew; undefined when all of them have ended well. */
export function missingLast(run: PlanRun, spec: AttachmentSpec, warns: boolean): Plan | undefined {
  const stages = lastStages(spec, [], warns).filter((stage) => !isDone(run, stage))
  const plan = planOf({ id: 'last', because: 'the rules are there', stages })
  return plan.stages.length > 0 ? plan : undefined
}

export function staleFlows(runs: readonly PlanRun[]): Plan | undefined {
  const flows = runs.flatMap(({ outcomes }) =>
    outcomes.flatMap(({ seen }): readonly FlowSelections[] => seen?.flows ?? []),
  )
  if (flows.length === 0) return undefined
  return planOfOne('flows', 'flows to the host ports began without the rules', { kind: 'flows', verb: 'delete', flows })
}

/** Takes our default routes away beside default routes that the pod had already. */
export function withoutSecondDefaults(second: readonly Extract<Op, { kind: 'route.add' }>[]): Plan {
  const why = `leave the pod's own default route alone`
  const ops = second.map(({ dev, route }): Op => ({ in: 'pod', kind: 'route.del', dev, route, why }))
  return planOfOne('default routes', 'the pod has a default route of its own', { kind: 'batch', ops })
}
