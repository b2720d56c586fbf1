// SPDX-License-Identifier: Apache-2.0
// Carries out the stages of a plan that are no batch: waits, looks, rules that may collide with orphans, flows.

import type { BesideRun, Plan, PlanRun, Seen } from '../../plan/order/stage.ts'
import { deleteFlows, earlierFlows } from '../../system/kernel/conntrack.ts'
import { waitForDad } from '../../system/kernel/duplicate-addresses.ts'
import { executeWithRules, type Place } from '../../system/kernel/execute.ts'
import { reportListeners } from '../../system/kernel/listening.ts'
import { learnNftVersion } from '../../system/kernel/nft-version.ts'
import { type PlanPlace, runPlan } from '../../system/kernel/run-plan.ts'
import { phase } from '../../system/process/trace.ts'
import { waitForHolder } from '../../system/store/lock.ts'
import { allNetworks } from '../../system/store/records.ts'
import type { CallContext } from './context.ts'
import { machineLock } from './locks.ts'

/** Runs plans. Never rejects for a stage that failed: the run says so. */
export interface RunPort {
  readonly run: (plan: Plan) => Promise<PlanRun>
}

/** Runs plans in a place. */
export function runnerIn(context: CallContext, place: PlanPlace): RunPort['run'] {
  return async (plan) => {
    phase(plan.id)
    return await runPlan(place, plan, async (run) => await performBeside(context, place, run))
  }
}

async function performBeside(context: CallContext, place: Place, run: BesideRun): Promise<Seen | undefined> {
  switch (run.kind) {
    case 'rules':
      await executeWithRules(place, run.ops)
      return undefined
    case 'flows':
      if (run.verb === 'list') return { flows: await earlierFlows(place.run, run.flows, run.ports) }
      await deleteFlows(place.run, run.flows)
      return undefined
    case 'wait': {
      const { ifName, containerId } = run.spec.key
      if (run.until === 'addresses') await waitForDad(place, ifName)
      // A call that empties sets and fills them reads the records under the machine's lock: perhaps ours was not there
      // yet. A later holder of the lock finds ours.
      else
        await waitForHolder({
          ...machineLock(context, `say the rules of ${ifName} of container ${containerId}`),
          deadline: context.work,
        })
      return undefined
    }
    case 'look':
      return await look(place, run)
    default:
      return run satisfies never
  }
}

async function look({ run }: Place, look: Extract<BesideRun, { kind: 'look' }>): Promise<Seen | undefined> {
  switch (look.what) {
    case 'networks left':
      return { networksLeft: new Set(allNetworks().map(({ name }) => name)) }
    case 'nft':
      await learnNftVersion(run)
      return undefined
    case 'listeners':
      reportListeners(look.spec.hostPorts?.ports ?? [])
      return undefined
    default:
      return look satisfies never
  }
}
