// SPDX-License-Identifier: Apache-2.0
// The order of an ADD that makes an interface (modes bridge, ptp and macvlan), by the ids of its plans. Before them
// stands the intent record (commands/attach/intent.ts).
//   usual       reserve, look at the network (files), write down, usual (links beside rules, pod, last), finish
//   to set up   … write down, look at the host, set up, pod, finish: something shared is missing or stands in the way
//   delegated   the interface first, which dhcp needs, then lease, and from there on as above
// What is in the stages: stages.ts; reserve.ts, set-up.ts and last.ts have the plans around.

import type { AttachmentSpec, NetworkSpec } from '../model/attachment.ts'
import { aliasOf } from '../model/names.ts'
import type { Op } from '../model/op.ts'
import { afterPrevious, resultOf } from '../modes/answer.ts'
import { hostOps, leasedHostOps } from '../modes/attach.ts'
import { ownMacOps } from '../modes/bridge.ts'
import { interfaceConf } from '../modes/drivers.ts'
import { fastPathBridgeOps } from '../modes/network.ts'
import { subnetsOf } from '../modes/subnets.ts'
import { conflictOf, interfaceExists, isPairTaken } from './conflicts.ts'
import { isUsual, isWithoutLease, leaseOf, madeDefaults, specOf, wantedNetwork } from './decided.ts'
import type { AddFacts } from './facts.ts'
import { askPlugin, defaultRoutes, finish, missingFlows, missingLast, warnsOf } from './last.ts'
import { areRulesMissing, partRuns, ran } from './progress.ts'
import { lookAtNetwork, lookAtTables, reserve, writeDown } from './reserve.ts'
import { isOvertaken, lookAtHost, lookAtRules, networkSetUp, rebuiltRules, type SetUp, setUp } from './set-up.ts'
import { type Failure, failureIn, outcomeOf, type Plan, type PlanRun, planOf, type Stage, type Step } from './stage.ts'
import { lastStages, podStages, ruleStages } from './stages.ts'

/** What comes next. */
export function nextOfInterface(facts: AddFacts): Step {
  const last = facts.runs.at(-1)
  if (last === undefined) return reserve(facts)
  const failed = failureIn(last)
  if (last.plan.id === 'usual') return afterUsual(facts, last)
  if (failed !== undefined)
    return last.plan.id === 'set up' ? afterFailedSetUp(facts, last, failed) : finalError(facts, failed)
  switch (last.plan.id) {
    case 'reserve':
      return lookAtTables(facts) ?? lookAtNetwork(facts, networkNow(facts))
    case 'look at routing tables':
    case 'lease':
      return lookAtNetwork(facts, networkNow(facts))
    case 'look at the network':
      return writeDown(facts)
    case 'write down':
      return isUsual(facts) ? usual(facts) : lookAtNetworkState(facts)
    case 'look at the host':
      return facts.learnt.shared?.isMade ? usual(facts) : setUp(facts, settingOf(facts))
    case 'look at VLANs':
      return setUp(facts, settingOf(facts))
    case 'set up':
      return pod(facts)
    case 'keep the MAC':
    case 'remove what is left':
      return lookAtNetworkState(facts)
    case 'look at what is left':
      return removeOrphanLink(facts)
    case 'look at the rules':
      return rebuiltRules(facts)
    default:
      return rest(facts)
  }
}

/** Of many first ADDs one sets the network up. Where that did not do, or was cut short, state tells nothing. */
function lookAtNetworkState(facts: AddFacts): Plan {
  const isFirstLook = ran(facts, 'usual') === undefined && ran(facts, 'set up') === undefined
  const { abandoned = [] } = facts.learnt.ranges ?? {}
  return lookAtHost(wantedNetwork(facts), { unlessMade: isFirstLook, spec: specOf(facts), abandoned })
}

/** Whether the interface is there, made without its addresses. */
function isMade({ learnt }: AddFacts): boolean {
  return learnt.delegated !== undefined
}

function ownOps(facts: AddFacts, spec: AttachmentSpec): readonly Op[] {
  return isMade(facts) ? leasedHostOps(spec) : hostOps(spec)
}

/** The network as it is: an existing bridge keeps its MAC and MTU. */
function networkNow(facts: AddFacts): NetworkSpec {
  return networkSetUp(partRuns(facts)) ?? wantedNetwork(facts)
}

/** All of it at once: rules beside links, nothing looked at beforehand. */
function usual(facts: AddFacts): Plan {
  const spec = specOf(facts)
  const network = wantedNetwork(facts)
  const bridge = ownBridgeMacOps(facts, network)
  // Said with what is said of it anyway: a line more for a process that runs.
  const shows = bridge.flatMap((op): Op[] => ('dev' in op ? [showBridge(op.dev)] : []))
  const ops = [...fastPathBridgeOps(network), ...ownOps(facts, spec), ...shows]
  const rules = ruleStages(spec, facts.learnt.networks ?? [])
  return planOf({
    id: 'usual',
    because: 'the network is set up as it is configured',
    stages: [
      {
        id: 'links',
        run: { kind: 'batch', ops },
        after: [],
        ...(network.bridge && shows.length > 0
          ? { proof: { kind: 'same bridge', bridge: network.bridge.name, mac: network.bridge.mac } as const }
          : {}),
      },
      ...rules,
      ...podAndRest(facts, spec, ['links', ...rules.map(({ id }) => id)]),
    ],
  })
}

/** The pod's side of a network that was just set up. */
function pod(facts: AddFacts): Plan {
  return planOf({ id: 'pod', because: 'the network is set up now', stages: podAndRest(facts, specOf(facts), []) })
}

/** `before`: the stages of links and rules in the same plan, those of links first. */
function podAndRest(facts: AddFacts, spec: AttachmentSpec, before: readonly string[]): readonly Stage[] {
  const side = podStages(spec, { after: before.slice(0, 1), starts: before.slice(0, 2), isMade: isMade(facts) })
  const all = [...before, ...side.map(({ id }) => id)]
  return [...side, ...lastStages(spec, all, warnsOf(facts))]
}

/** A failed link is looked into, another bridge under the name is set up anew; rules are built anew by the rest. */
function afterUsual(facts: AddFacts, run: PlanRun): Step {
  const { failed } = outcomeOf(run, 'links') ?? {}
  if (failed?.reason === 'unproven') return keepMac(facts)
  if (failed !== undefined) return afterFailedLinks(facts, failed)
  const others = run.outcomes.filter(({ id, failed: each }) => each !== undefined && !isRepairable(id, each))
  return others[0]?.failed ? finalError(facts, others[0].failed) : rest(facts)
}

function isRepairable(id: string, { reason }: Failure): boolean {
  return id.startsWith('rules') && reason !== undefined
}

/** Bridge gone or changed, or an orphan of ours in the way: look, put right, and once more. */
function afterFailedLinks(facts: AddFacts, failed: Failure): Step {
  if (failed.reason === undefined) return failed.error
  return conflictOf(failed, whose(facts)) ?? lookAtNetworkState(facts)
}

function finalError(facts: AddFacts, failed: Failure): Error {
  return conflictOf(failed, whose(facts)) ?? failed.error
}

function whose(facts: AddFacts) {
  return { key: facts.key, netns: facts.netns, spec: specOf(facts), network: wantedNetwork(facts) }
}

/** Somebody made it anew: the ports of all pods are off it, and they know the gateway by its MAC. */
function keepMac(facts: AddFacts): Plan {
  const ops = ownBridgeMacOps(facts, wantedNetwork(facts))
  return {
    id: 'keep the MAC',
    because: 'somebody has made the bridge anew',
    stages: [{ id: 'links', run: { kind: 'batch', ops }, after: [] }],
  }
}

function afterFailedSetUp(facts: AddFacts, run: PlanRun, failed: Failure): Step {
  const conflict = conflictOf(failed, whose(facts))
  if (conflict !== undefined) return conflict
  if (isOvertaken({ runs: partRuns(facts) }, run, failed)) return lookAtNetworkState(facts)
  const { host } = specOf(facts)
  if (!isPairTaken(failed) || host === undefined || ran(facts, 'remove what is left') !== undefined) return failed.error
  return {
    id: 'look at what is left',
    because: `a link called ${host.name} or ${facts.key.ifName} is in the way`,
    stages: [{ id: 'orphan link', run: { kind: 'look', what: 'orphan link', dev: host.name }, after: [] }],
  }
}

/** A host end of ours without a record is left from a state directory that was removed: it goes. */
function removeOrphanLink(facts: AddFacts): Step {
  const { alias, links = [] } = facts.learnt.orphanLink ?? {}
  const cause = ran(facts, 'set up')?.outcomes.find(({ id }) => id === 'own')?.failed?.error
  if (alias !== aliasOf(facts.key)) return interfaceExists(facts, cause ?? new Error('a link is in the way'))
  const ops = links.map((dev): Op => ({ in: 'host', kind: 'link.del', dev, why: `remove the orphan ${dev}` }))
  return {
    id: 'remove what is left',
    because: 'a link of this attachment is left without a record',
    stages: [{ id: 'links', run: { kind: 'batch', ops }, after: [] }],
  }
}

function settingOf(facts: AddFacts): SetUp {
  const { port, ips } = specOf(facts)
  return {
    ...(port && { port }),
    network: wantedNetwork(facts),
    namesSubnets: facts.conf.ipam.kind === 'pool',
    own: ownStillMissing(facts),
    mayOverlap: interfaceConf(facts.conf).allowOverlap,
    key: facts.key,
    subnets: subnetsOf(facts.conf, ips),
    abandoned: facts.learnt.ranges?.abandoned ?? [],
  }
}

/** The pair was made where a later line of the same batch failed; where its own line failed, it is in the way. */
function ownStillMissing(facts: AddFacts): readonly Op[] {
  const spec = specOf(facts)
  const own = ownOps(facts, spec)
  const before = ran(facts, 'usual')
  const failed = before && outcomeOf(before, 'links')?.failed
  if (failed === undefined) return own
  if (failed.reason === 'unproven') return []
  const hasPair = spec.host !== undefined && facts.learnt.shared?.links.has(spec.host.name) === true
  return hasPair && failed.op?.kind !== 'veth.add' ? own.filter(({ kind }) => kind !== 'veth.add') : own
}

/** What is left once links and pod are made. */
function rest(facts: AddFacts): Step {
  const spec = specOf(facts)
  const network = networkNow(facts)
  if (areRulesMissing(facts)) return lookAtRules(spec)
  const { kept, second } = madeDefaults(partRuns(facts))
  const made = { ...spec, defaultRoutes: kept }
  const isFewer = kept.length < spec.defaultRoutes.length
  if (isFewer && ran(facts, 'default routes') === undefined) return defaultRoutes(made, second, network)
  const missing = missingLast(facts, spec) ?? missingFlows(facts)
  if (missing !== undefined) return missing
  if (facts.conf.ipam.kind === 'delegated' && isWithoutLease(facts)) return askPlugin(facts.conf.ipam.type)
  if (ran(facts, 'finish') === undefined) return finish
  const result = resultOf({ spec: made, network, lease: leaseOf(facts), netns: facts.netns })
  return { result: afterPrevious(result, interfaceConf(facts.conf)) }
}

/** The MAC of a bridge of our making: that of another one may be anything. */
function ownBridgeMacOps({ machineId }: AddFacts, { bridge }: NetworkSpec): readonly Op[] {
  return bridge === undefined ? [] : ownMacOps(bridge, machineId)
}

/** Its addresses are not asked for: in a batch `ip` has those of all links listed (ip/ip.c, rtnl_set_strict_dump). */
function showBridge(dev: string): Op {
  return { in: 'host', kind: 'link.show', dev, why: `see that ${dev} is the bridge it was` }
}
