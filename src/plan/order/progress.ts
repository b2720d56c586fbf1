// SPDX-License-Identifier: Apache-2.0
// What an ADD has done so far, from its runs.

import type { AddFacts } from './facts.ts'
import type { PlanRun } from './stage.ts'

type Runs = Pick<AddFacts, 'learnt' | 'runs'>

/** The runs since a delegated plugin gave its lease, or all of them: the interface is made, then its addresses. */
export function partRuns({ runs }: Runs): readonly PlanRun[] {
  return runs.slice(runs.findLastIndex(({ plan }) => plan.id === 'lease') + 1)
}

/** The last run of a plan. */
export function ran(facts: Runs, id: string): PlanRun | undefined {
  return partRuns(facts).findLast(({ plan }) => plan.id === id)
}

/** Whether a stage has ended well. */
export function isDone(facts: Runs, stage: string): boolean {
  const outcomes = partRuns(facts).flatMap((run) => run.outcomes)
  return outcomes.some(({ id, failed, skipped }) => id === stage && !failed && !skipped)
}

/**
 * Whether the rules on the way of a usual ADD failed, or said elements of a network that has gone meanwhile, and nobody
 * has built them anew since.
 */
export function areRulesMissing(facts: Runs): boolean {
  const usual = ran(facts, 'usual')
  if (usual === undefined || ran(facts, 'set up') !== undefined || ran(facts, 'rebuild the rules') !== undefined)
    return false
  const { networks = [], networksLeft } = facts.learnt
  const hasGone = networks.some(({ name, removeWhenEmpty }) => removeWhenEmpty && networksLeft?.has(name) === false)
  return hasGone || usual.outcomes.some(({ id, failed }) => id.startsWith('rules') && failed !== undefined)
}
