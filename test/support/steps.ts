// SPDX-License-Identifier: Apache-2.0
// An order step by step: what comes next as short lines, and outcomes that nobody had to run anything for.

import type { AddFacts, Learnt } from '../../src/plan/order/facts.ts'
import { afterRun } from '../../src/plan/order/facts.ts'
import { isEarly } from '../../src/plan/order/proof.ts'
import type { Failure, Outcome, Plan, Stage, Step } from '../../src/plan/order/stage.ts'

/** What is told of one stage; of the others, that they ended well. `skipped` where what is before it failed. */
export type Happens = Readonly<Record<string, Pick<Outcome, 'failed' | 'shown' | 'refused'> & { learnt?: Learnt }>>

/** A step as text: the plan's name, then a line a stage with what it waits for; or the error, or that there is an answer. */
export function stepText<T>(step: Step<T>): readonly string[] {
  if (step instanceof Error) return [`error: ${step.message}`]
  if ('result' in step) return ['answer']
  return [`${step.id}${step.lock ? ', locked' : ''}`, ...step.stages.map(stageLine)]
}

/** One stage: what it does and what it waits for. */
export function stageLine({ id, run, after, anyway, proof }: Stage): string {
  const what = 'what' in run ? ` ${run.what}` : 'until' in run ? ` ${run.until}` : 'verb' in run ? ` ${run.verb}` : ''
  const kinds = 'ops' in run && run.ops.length > 0 ? `: ${run.ops.map(({ kind }) => kind).join(' ')}` : ''
  const order = after.length === 0 ? '' : ` after ${after.join(', ')}${anyway ? ', anyway' : ''}`
  return `  ${id}${order}: ${run.kind}${what}${kinds}${proofText(proof)}`
}

function proofText(proof: Stage['proof']): string {
  if (proof === undefined) return ''
  return isEarly(proof) ? `, until ${proof.kind}` : ', proven'
}

/** The plan that comes next. Throws where it is none. */
export function planIn<T>(step: Step<T>): Plan {
  if (step instanceof Error) throw step
  if ('result' in step) throw new Error('the order is over')
  return step
}

type Growing = Pick<AddFacts, 'learnt' | 'runs'>

/** The facts after the plans that came next, one after the other, when that happens in each. */
export function factsAfter<Facts extends Growing, T>(
  next: (facts: Facts) => Step<T>,
  begun: Facts,
  happenings: readonly Happens[],
): Facts {
  return happenings.reduce((facts, happens) => afterRun(facts, run(planIn(next(facts)), happens)), begun)
}

function run(plan: Plan, happens: Happens) {
  for (const id of Object.keys(happens))
    if (!plan.stages.some((stage) => stage.id === id)) throw new Error(`plan ${plan.id} has no stage ${id}`)
  const out = new Map<string, 'failed' | 'skipped'>()
  const outcomes = plan.stages.map(({ id, run: { kind, ...rest }, after, anyway }): Outcome => {
    const isSkipped = after.some((each) => out.get(each) === 'skipped' || (out.get(each) === 'failed' && !anyway))
    if (isSkipped) {
      out.set(id, 'skipped')
      return { id, done: [], skipped: true }
    }
    const told = happens[id] ?? {}
    if (told.failed !== undefined) out.set(id, 'failed')
    return { id, done: 'ops' in rest && told.failed === undefined ? rest.ops : [], ...told }
  })
  return { plan, outcomes }
}

/** A failure of a tool. */
export function failing(message: string, more: Omit<Failure, 'error'> = {}): { readonly failed: Failure } {
  return { failed: { error: new Error(message), ...more } }
}
