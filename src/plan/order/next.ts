// SPDX-License-Identifier: Apache-2.0
// The order of an ADD that writes a record, as a function of what is known: a plan, the answer, or the call's error.
// Nothing else decides an order: the verbs carry it out (commands/call/carry-out.ts), `trestle plan` prints it.

import { nextOfChained } from './chained.ts'
import type { AddFacts } from './facts.ts'
import { nextOfInterface } from './interface.ts'
import { nextOfIpam } from './ipam.ts'
import type { Step } from './stage.ts'

/** What comes next in an ADD. Throws CniError where the facts cannot be acted on. */
export function nextOfAdd(facts: AddFacts): Step {
  if (facts.key.role === 'ipam') return nextOfIpam(facts)
  return facts.key.role === 'chained' ? nextOfChained(facts) : nextOfInterface(facts)
}
