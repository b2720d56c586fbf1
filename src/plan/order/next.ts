// SPDX-License-Identifier: Apache-2.0
// The order of an ADD, of every mode, as a function of what is known: a plan, the answer, or what the call fails with.
// Nothing else decides an order: the verbs carry it out (commands/call/carry-out.ts), `trestle plan` prints it.

import { CniError } from '../../cni/model/error.ts'
import { loopbackOps, loopbackResult } from '../modes/loopback.ts'
import type { ModeRoom } from '../modes/mode.ts'
import { modeOf } from '../modes/modes.ts'
import { nextOfChained } from './chained.ts'
import type { AddFacts } from './facts.ts'
import { nextOfInterface } from './interface.ts'
import { nextOfIpam } from './ipam.ts'
import { failureIn, type Step } from './stage.ts'

const orders: Readonly<Record<ModeRoom['order'], (facts: AddFacts) => Step>> = {
  interface: nextOfInterface,
  chained: nextOfChained,
  loopback: nextOfLoopback,
}

/** What comes next in an ADD. Throws CniError where the facts cannot be acted on. */
export function nextOfAdd(facts: AddFacts): Step {
  if (facts.key.role === 'ipam') return nextOfIpam(facts)
  return orders[modeOf(facts.conf).order](facts)
}

/** One process, which also shows what the kernel gives lo. */
function nextOfLoopback({ conf, netns, runs }: AddFacts): Step {
  const [run] = runs
  if (run === undefined)
    return {
      id: 'lo',
      because: 'mode "loopback" sets lo up',
      stages: [{ id: 'lo', run: { kind: 'batch', ops: loopbackOps }, after: [] }],
    }
  const failed = failureIn(run)
  if (failed !== undefined) return failed.error
  const lo = run.outcomes[0]?.shown?.links.get('lo')
  if (lo === undefined)
    return new CniError('loopback-missing', 'the sandbox shows no lo', { details: 'every network namespace has one' })
  const result = loopbackResult(lo, netns)
  return { result: conf.prevResult ?? result }
}
