// SPDX-License-Identifier: Apache-2.0
// Carries out the stages of a plan that are no batch: waits, looks, rules that may collide with orphans, flows.

import { setTimeout as sleep } from 'node:timers/promises'
import { CniError } from '../../cni/error.ts'
import type { BesideRun, Plan, PlanRun, Seen } from '../../plan/order/stage.ts'
import { deleteFlows, earlierFlows } from '../../system/kernel/conntrack.ts'
import { executeWithRules, type Place } from '../../system/kernel/execute.ts'
import { reportListeners } from '../../system/kernel/listening.ts'
import { learnNftVersion } from '../../system/kernel/nft-version.ts'
import { type PlanPlace, runPlan } from '../../system/kernel/run-plan.ts'
import { nowMs } from '../../system/process/clock.ts'
import { phase } from '../../system/process/trace.ts'
import { waitForHolder } from '../../system/store/lock.ts'
import { allNetworks } from '../../system/store/records.ts'
import { podNetns, readDocuments } from '../../tools/ip.ts'
import type { CallContext } from './context.ts'
import { machineLock } from './locks.ts'

/** Runs plans. Never rejects for a stage that failed: the run says so. */
export interface RunPort {
  readonly run: (plan: Plan) => Promise<PlanRun>
}

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
      else await waitForHolder(machineLock(context, `say the rules of ${ifName} of container ${containerId}`))
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

// enabledad: the wait for the answer of IPv6 duplicate address detection on the pod's interface.

/** As upstream (plugins/pkg/ipam/ipam_linux.go): five seconds, looked at every 50 ms. */
const settleMs = 5000
const pauseMs = 50

/** Waits until no address is tentative. Throws CniError 100 for a duplicate, or when it takes longer than 5 s. */
async function waitForDad(place: Place, ifName: string): Promise<void> {
  const until = nowMs() + settleMs
  for (;;) {
    const addresses = await podAddresses(place, ifName)
    const failed = addresses.find((address) => address['dadfailed'] === true)
    if (failed) throw duplicate(ifName, String(failed['local']))
    if (!addresses.some((address) => address['tentative'] === true)) return
    if (nowMs() > until) throw tentative(ifName)
    await sleep(pauseMs)
  }
}

type Json = Readonly<Record<string, unknown>>

async function podAddresses({ run, netnsFd }: Place, ifName: string): Promise<readonly Json[]> {
  const args = [`--net=${podNetns}`, '--', 'ip', '-6', '-j', 'addr', 'show', 'dev', ifName]
  const output = await run({ file: 'nsenter', args, ...(netnsFd !== undefined && { netnsFd }) })
  return readDocuments(output.stdout).flatMap((link) => (link['addr_info'] ?? []) as Json[])
}

function duplicate(ifName: string, address: string): CniError {
  return new CniError('duplicate-address', `${address} on ${ifName} is in use by another machine`, {
    details:
      `duplicate address detection failed; give the other one up, ` +
      `or take the address out of the range${macHint(address)}`,
  })
}

/** A pod with the same address has the same MAC (model/names.ts), and its link-local address comes first. */
function macHint(address: string): string {
  return address.startsWith('fe80:') ? "\nthe MAC is in use too: it follows the pod's address" : ''
}

function tentative(ifName: string): CniError {
  return new CniError('address-tentative', `${ifName} still has tentative addresses after ${settleMs} ms`, {
    details: 'duplicate address detection did not end; is the bridge up? Without "enabledad" it is not waited for',
  })
}
