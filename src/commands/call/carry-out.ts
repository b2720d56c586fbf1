// SPDX-License-Identifier: Apache-2.0
// Carries out an order (plan/order): as long as there is a plan, it is run, and what came of it is added to the facts.

import { type AddFacts, afterRun } from '../../plan/order/facts.ts'
import type { Answer, Plan, Step } from '../../plan/order/stage.ts'
import { type Door, type PlanPlace, runPlan } from '../../system/kernel/run-plan.ts'
import { phase } from '../../system/process/trace.ts'
import { withLock } from '../../system/store/lock.ts'
import type { CallContext } from './context.ts'
import { machineLock } from './machine-lock.ts'

/** How an order is carried out. `next`: the order; `door`: what it does apart from operations. */
export interface Order<Facts, T> {
  readonly place: PlanPlace
  readonly door: Door
  readonly next: (facts: Facts) => Step<T>
}

type Growing = Pick<AddFacts, 'learnt' | 'runs'>

/**
 * Runs plans until there is an answer. Throws the error that the order ends with, or CniError 11 for a lock that stays
 * held.
 */
export async function carryOut<Facts extends Growing, T>(
  context: CallContext,
  order: Order<Facts, T>,
  begun: Facts,
): Promise<T> {
  let facts = begun
  for (;;) {
    const step = planOrAnswer(order.next(facts))
    phase('result' in step ? 'after the plans' : step.id)
    if ('result' in step) return step.result
    if (step.lock === undefined) facts = afterRun(facts, await runPlan(order.place, step, order.door))
    else {
      const lock = { ...machineLock(context, step.because), deadline: context.work }
      facts = await withLock(lock, async () => await whileLocked(order, facts, step))
    }
  }
}

/** The lock is held from one plan under it to the next. */
async function whileLocked<Facts extends Growing, T>(order: Order<Facts, T>, begun: Facts, first: Plan) {
  let facts = begun
  for (let step: Plan | Answer<T> = first; 'stages' in step && step.lock !== undefined; ) {
    phase(step.id)
    facts = afterRun(facts, await runPlan(order.place, step, order.door))
    step = planOrAnswer(order.next(facts))
  }
  return facts
}

function planOrAnswer<T>(step: Step<T>): Plan | Answer<T> {
  if (step instanceof Error) throw step
  return step
}
