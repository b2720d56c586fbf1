// SPDX-License-Identifier: Apache-2.0
// Sets up and repairs the shared parts of networks, under the machine's lock: for an ADD, for pods that are taken over,
// and for the agent.

import type { AttachmentSpec, NetworkSpec } from '../../model/attachment.ts'
import type { NetworkFacts } from '../../plan/order/facts.ts'
import { missingLast, staleFlows } from '../../plan/order/interface.ts'
import {
  isOvertaken,
  needsVlans,
  rebuiltRules,
  type SetUp,
  type Situation,
  setUp,
  withoutGateways,
} from '../../plan/order/set-up.ts'
import { type Failure, failureIn, type PlanRun, wellEnded } from '../../plan/order/stage.ts'
import type { RunPort } from '../call/beside.ts'
import type { HostLook, RulesPort, SharedPort } from './ports.ts'

/** How often everything is looked at: of pods that go, a few at once are many. */
const mostLooks = 5

/** `made`: another call had set the network up before the lock was ours. */
type SetUpEnd =
  | { readonly at: 'made' }
  | { readonly at: 'set up'; readonly network: NetworkSpec }
  | { readonly at: 'failed'; readonly failed: Failure }

/**
 * Looks at the host and makes what the network lacks, as often as pods leave between look and change. Throws CniError
 * 108 for an address of another network on the bridge, 110 for a network in the way of its ranges.
 */
export async function setUpShared(
  port: SharedPort,
  setting: SetUp,
  { unlessMade, spec, machineId }: Pick<HostLook, 'unlessMade' | 'spec'> & { readonly machineId: string },
): Promise<SetUpEnd> {
  const { network, abandoned = [] } = setting
  return await port.locked(`set up what the attachments of network ${network.name} share`, async () => {
    for (let looks = 1; ; looks++) {
      const shared = await port.lookAtHost({ network, unlessMade: unlessMade && looks === 1, abandoned, spec })
      if (shared.isMade) return { at: 'made' }
      const vlans = needsVlans(shared, setting) ? await port.lookAtVlans() : undefined
      const making = await setUpOrLeave(port, { shared, vlans, machineId }, setting)
      const run = await port.run(making.plan)
      const failed = failureIn(run)
      if (failed === undefined) {
        await port.settleAccepts(making.accepting, making.all)
        // Last: a set-up that was cut short is not taken for a finished one by the next ADD.
        port.writeNetwork(making.network)
        return { at: 'set up', network: making.network }
      }
      if (looks === mostLooks || !isOvertaken(making, run)) return { at: 'failed', failed }
    }
  })
}

/** A refusal leaves nothing of ours on a bridge of others. */
async function setUpOrLeave(port: RunPort, situation: Situation, setting: SetUp) {
  try {
    return setUp(situation, setting)
  } catch (error) {
    const plan = withoutGateways(situation.shared, setting)
    if (plan.stages.length > 0) await port.run(plan)
    throw error
  }
}

/**
 * Sets the network's bridge, forwarding and rules up without an attachment. Returns the network as it is: an existing
 * bridge keeps its MAC and MTU. Throws as setUpShared, and what fails.
 */
export async function setUpAlone(port: SharedPort, network: NetworkSpec, machineId: string): Promise<NetworkSpec> {
  const setting: SetUp = { network, subnetSource: 'leases', own: () => [], mayOverlap: false }
  const end = await setUpShared(port, setting, { unlessMade: false, machineId })
  switch (end.at) {
    case 'made':
      return network
    case 'set up':
      return end.network
    case 'failed':
      throw end.failed.error
    default:
      return end satisfies never
  }
}

/** Builds all rules of all networks anew after a flush, or after an overlap of networks. `spec`: of the call. */
export async function rebuildRules(port: RulesPort, spec?: AttachmentSpec): Promise<void> {
  await port.locked('the rules are not as they should be', async () => {
    const shared: NetworkFacts = await port.lookAtRules(spec)
    wellEnded(await port.run(rebuiltRules(shared)))
    await port.settleAllAccepts()
  })
}

// The end of an ADD in every mode: settings of the host's links and flows that began without the rules.

/** Runs the last stages that `run` could not, and deletes stale flows. `warns`: listeners of the node are reported. */
export async function runLast(
  port: RunPort,
  run: PlanRun,
  { spec, warns }: { readonly spec: AttachmentSpec; readonly warns: boolean },
): Promise<void> {
  const missing = missingLast(run, spec, warns)
  const runs = missing === undefined ? [run] : [run, wellEnded(await port.run(missing))]
  const flows = staleFlows(runs)
  if (flows !== undefined) wellEnded(await port.run(flows))
}
