// SPDX-License-Identifier: Apache-2.0
// A teardown carried out on assumed answers: all of the attachment's links are there, nobody else has the chains of its
// port conditions, and nothing fails.

import { afterRun } from '../../plan/order/facts.ts'
import type { Removal } from '../../plan/order/removal.ts'
import type { Plan, Stage } from '../../plan/order/stage.ts'
import { type DelFacts, nextOfDel, nextOfLeaseRemoval } from '../../plan/order/teardown.ts'

/** The plans of a DEL. `type`: of the plugin that has leased the addresses. Throws the CniError that it ends with. */
export function assumedDel(removal: Removal, type: string | undefined): readonly Plan[] {
  let facts: DelFacts = { removal, hasPod: true, learnt: {}, runs: [] }
  for (;;) {
    const step = nextOfDel(facts)
    if (step instanceof Error) throw step
    if ('result' in step) break
    facts = afterRun(facts, { plan: step, outcomes: step.stages.map(assumed) })
  }
  const lease = type === undefined ? [] : [nextOfLeaseRemoval({ type, runs: [] })]
  return [...facts.runs.map(({ plan }) => plan), ...lease.filter((step) => 'stages' in step)]
}

function assumed({ id, run }: Stage) {
  if (run.kind !== 'look' || run.what !== 'present') return { id, done: [] }
  return { id, done: [], learnt: { present: { links: new Set(run.links), unused: run.chains } } }
}
