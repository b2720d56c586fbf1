// SPDX-License-Identifier: Apache-2.0
// A teardown carried out on assumed answers: all of the attachment's links are there, nobody else has the chains of its
// port conditions, and nothing fails.

import { type AddFacts, afterRun } from '../../plan/order/facts.ts'
import { loopbackRemoval, removalOf } from '../../plan/order/removal.ts'
import type { Plan, Stage } from '../../plan/order/stage.ts'
import { type DelFacts, nextOfDel, nextOfLeaseRemoval } from '../../plan/order/teardown.ts'
import type { AssumedAdd } from './assume.ts'

/**
 * The plans of the DEL after an ADD. `group`: a link group for what is removed together. Throws the CniError that it
 * ends with.
 */
export function assumedDel(
  { key, conf }: Pick<AddFacts, 'key' | 'conf'>,
  { spec }: Pick<AssumedAdd, 'spec'>,
  group: number,
): readonly Plan[] {
  // Of lo alone nothing is written down.
  const removal = spec === undefined ? loopbackRemoval(key) : removalOf({ key, spec }, group)
  const type = conf.ipam.kind === 'delegated' && key.role === 'main' ? conf.ipam.type : undefined
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
