// SPDX-License-Identifier: Apache-2.0
// ADD in the modes that make an interface, from addresses to the finished record. The intent
// record is on disk before (intent.ts).
//   usual       the network is set up: links beside rules, pod, last
//   to set up   a shared part is missing or is in the way: look and set up under the lock, then the pod
//   delegated   the interface first, which dhcp needs, then the lease, and once more as above for the addresses

import { familyOf } from '../../cni/address.ts'
import type { Result } from '../../cni/result.ts'
import type { InterfaceNetConf } from '../../config/net-conf.ts'
import { afterPrevious, resultOf } from '../../drivers/answer.ts'
import { deviceOf, interfaceDriverOf } from '../../drivers/drivers.ts'
import type { AttachmentSpec, NetworkSpec } from '../../model/attachment.ts'
import { aliasOf } from '../../model/names.ts'
import { type AddFacts, type Begun, isSetUp, madeDefaults, specOf, wantedNetwork } from '../../plan/order/facts.ts'
import {
  type Cure,
  conflictOf,
  curedPodPlan,
  cureInPod,
  interfaceExists,
  isPairTaken,
  type Making,
  orphanLinkPlan,
  podPlan,
  settingOf,
  usualPlan,
  warnsOf,
  withoutSecondDefaults,
} from '../../plan/order/interface.ts'
import {
  continued,
  type Failure,
  failureIn,
  outcomeOf,
  type Plan,
  type PlanRun,
  type Stage,
  wellEnded,
} from '../../plan/order/stage.ts'
import { areRulesMissing, noRules, type PodSide, type RuleStages, unrepairable } from '../../plan/order/stages.ts'
import type { InterfacePort } from './ports.ts'
import { rebuildRules, runLast, setUpShared } from './set-up.ts'

/** Makes the interface and all that belongs to it. Throws CniError as the port, and what the kernel refuses. */
export async function addInterface(port: InterfacePort, begun: Begun<InterfaceNetConf>): Promise<Result> {
  const { conf } = begun
  const query = deviceOf(conf)
  const device = query && (await port.lookAtDevice(query))
  const ranges =
    conf.ipam.kind === 'pool' ? await port.lookAtRanges(interfaceDriverOf(conf).gatewaySide(conf, [])) : noRanges
  const lease = await port.reserveAddresses(ranges.excluded)
  const usedTables = await tablesFor(port, { conf, lease })
  const facts: AddFacts = { ...begun, device, ranges, usedTables, lease, known: undefined, isMade: false }
  let made = await makeInterface(port, facts)
  if (conf.ipam.kind === 'delegated') {
    const delegated = await port.delegate(conf.ipam.type)
    made = await makeInterface(port, { ...made.facts, lease: delegated, isMade: true })
  }
  port.finish()
  const { spec, network, facts: known } = made
  const { isDefaultGateway } = conf
  return afterPrevious(resultOf({ spec, network, lease: known.lease, netns: begun.netns, isDefaultGateway }), conf)
}

const noRanges = { excluded: [], abandoned: [] }

/** sbr takes tables that are free: nothing else of the pod is looked at beforehand. */
async function tablesFor(port: InterfacePort, { conf, lease }: Pick<AddFacts, 'conf' | 'lease'>) {
  if (conf.sbr === undefined || conf.sbr.table !== undefined) return new Set<number>()
  const isV4Only = conf.ipam.kind !== 'delegated' && !lease.ips.some(({ address }) => familyOf(address) === 6)
  return await port.lookAtTables(isV4Only ? [4] : [4, 6])
}

interface Made {
  readonly facts: AddFacts
  readonly spec: AttachmentSpec
  readonly network: NetworkSpec
}

/**
 * The state of an interface that is written down. `tried`: the failure of its links in the usual plan; `isCleared`: an
 * orphan in the way was removed already.
 */
type State =
  | { readonly at: 'as configured' }
  | {
      readonly at: 'to set up'
      readonly tried?: Failure | undefined
      readonly isFirstTry: boolean
      readonly isCleared: boolean
    }
  | { readonly at: 'name taken'; readonly failed: Failure; readonly tried: Failure | undefined }
  | { readonly at: 'set up'; readonly network: NetworkSpec }
  | Ready

/** Links, rules and the pod's side are made. `rules`: the stages that said them, where no set-up did. */
interface Ready {
  readonly at: 'made'
  readonly network: NetworkSpec
  readonly run: PlanRun
  readonly pod: Stage
  readonly rules: RuleStages
}

/** Writes down and makes the interface with the addresses that are known. */
async function makeInterface(port: InterfacePort, facts: AddFacts): Promise<Made> {
  const { making, isThere } = await writeDown(port, facts)
  let state: State = isThere ? { at: 'as configured' } : { at: 'to set up', isFirstTry: true, isCleared: false }
  for (;;) {
    switch (state.at) {
      case 'as configured':
        state = await runUsual(port, making)
        break
      case 'to set up':
        state = await setUpAround(port, making, state)
        break
      case 'name taken':
        await removeOrphan(port, making, state.failed)
        state = { at: 'to set up', tried: state.tried, isFirstTry: false, isCleared: true }
        break
      case 'set up':
        state = await runPod(port, making, state.network)
        break
      case 'made':
        return await finishInterface(port, making, state)
      default:
        return state satisfies never
    }
  }
}

/** Ports, state of the network, and the whole intent. Returns whether files show that the network is set up. */
async function writeDown(
  port: InterfacePort,
  before: AddFacts,
): Promise<{ readonly making: Making; readonly isThere: boolean }> {
  const asked = specOf(before)
  // A teardown gives back the ports that the record has: they are in it before they are reserved.
  if (asked.hostPorts !== undefined && before.isMade) port.writeIntent(asked, wantedNetwork(before, asked))
  const spec = asked.hostPorts === undefined ? asked : await port.reservePorts(asked)
  const known = port.lookAtKnown()
  const wanted = wantedNetwork({ ...before, known }, spec)
  const isThere = isSetUp(wanted, known)
  // Of a network to be set up whose addresses a plugin or the configuration gave, the ranges are known by now.
  const ranges = isThere || before.conf.ipam.kind === 'pool' ? before.ranges : await port.lookAtRanges(wanted)
  port.writeIntent(spec, wanted)
  const facts = { ...before, known, ranges }
  return { making: { facts, spec, wanted, networks: port.networks() }, isThere }
}

/** All of it at once. A failed link is looked into; rules that are missing are built anew at the end. */
async function runUsual(port: InterfacePort, making: Making): Promise<State> {
  const { plan, links, rules, side } = usualPlan(making)
  const run = await runWithCures(port, plan, side)
  const failed = outcomeOf(run, links)?.failed
  if (failed !== undefined) {
    if (failed.reason === undefined) throw failed.error
    throwConflict(making, failed)
    // The bridge is gone, changed or another one, or an orphan of ours is in the way.
    return { at: 'to set up', tried: failed, isFirstTry: false, isCleared: false }
  }
  throwFailure(making, unrepairable(run, rules))
  return { at: 'made', network: making.wanted, run, pod: side.pod, rules }
}

async function runPod(port: InterfacePort, making: Making, network: NetworkSpec): Promise<State> {
  const { plan, side } = podPlan(making)
  const run = await runWithCures(port, plan, side)
  throwFailure(making, failureIn(run))
  return { at: 'made', network, run, pod: side.pod, rules: noRules }
}

/** Runs a plan with the pod's side, and the rest of it after each failure that has a cure. */
async function runWithCures(port: InterfacePort, plan: Plan, side: PodSide): Promise<PlanRun> {
  const cures: Cure[] = []
  let run = await port.run(plan)
  for (;;) {
    const failed = outcomeOf(run, side.pod)?.failed
    const isFixed = cures.some((each) => 'fix' in each)
    const cure = failed && cureInPod(failed, isFixed)
    if (cure === undefined) return run
    cures.push(cure)
    run = continued(run, await port.run(curedPodPlan(side, run, cures)))
  }
}

function throwFailure(making: Making, failed: Failure | undefined): void {
  if (failed === undefined) return
  throwConflict(making, failed)
  throw failed.error
}

/** Throws the CniError of a failure that no look and no repair changes. */
function throwConflict({ facts, spec, wanted }: Making, failed: Failure): void {
  const conflict = conflictOf(failed, { key: facts.key, netns: facts.netns, spec, network: wanted })
  if (conflict !== undefined) throw conflict
}

/** Everything shared, and the attachment's links with it. */
async function setUpAround(
  port: InterfacePort,
  making: Making,
  state: Extract<State, { at: 'to set up' }>,
): Promise<State> {
  const { tried, isFirstTry, isCleared } = state
  const look = { unlessMade: isFirstTry, spec: making.spec, machineId: making.facts.machineId }
  const end = await setUpShared(port, settingOf(making, tried), look)
  if (end.at === 'made') return { at: 'as configured' }
  if (end.at === 'set up') return end
  throwConflict(making, end.failed)
  if (!isPairTaken(end.failed) || making.spec.host === undefined || isCleared) throw end.failed.error
  return { at: 'name taken', failed: end.failed, tried }
}

/** A host end of ours without a record is left from a state directory that was removed: it goes. */
async function removeOrphan(port: InterfacePort, { facts, spec }: Making, failed: Failure): Promise<void> {
  const { alias, links } = await port.lookAtOrphanLink(spec.host?.name ?? '')
  if (alias !== aliasOf(facts.key)) throw interfaceExists(facts, failed.error)
  wellEnded(await port.run(orphanLinkPlan(links)))
}

/** Rules, default routes and flows that something else stood in the way of. */
async function finishInterface(
  port: InterfacePort,
  making: Making,
  { network, run, pod, rules }: Ready,
): Promise<Made> {
  const { facts, spec, networks } = making
  if (areRulesMissing(run, rules, networks)) await rebuildRules(port, spec)
  const { kept, second } = madeDefaults(outcomeOf(run, pod))
  const made = { ...spec, defaultRoutes: kept }
  if (kept.length < spec.defaultRoutes.length) {
    if (second.length > 0) wellEnded(await port.run(withoutSecondDefaults(second)))
    port.writeIntent(made, network)
  }
  await runLast(port, run, { spec, warns: warnsOf(facts.conf) })
  return { facts, spec: made, network }
}
