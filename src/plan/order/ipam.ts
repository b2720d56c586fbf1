// SPDX-License-Identifier: Apache-2.0
// The order of an ADD in the role of IPAM: addresses are reserved and written down, nothing is made in the kernel. Its
// DEL is that of everybody (teardown.ts).

import type { AttachmentSpec } from '../model/attachment.ts'
import { delegatedResult } from '../modes/answer.ts'
import { leaseOf } from './decided.ts'
import type { AddFacts } from './facts.ts'
import { inTurn, reserve } from './reserve.ts'
import { failureIn, type Step } from './stage.ts'

/** What comes next. */
export function nextOfIpam(facts: AddFacts): Step {
  const last = facts.runs.at(-1)
  if (last === undefined) return reserve(facts)
  const failed = failureIn(last)
  if (failed !== undefined) return failed.error
  if (last.plan.id !== 'reserve') return { result: delegatedResult(leaseOf(facts)) }
  return {
    id: 'finish',
    because: 'a later call can give back what is written down',
    stages: inTurn([
      { id: 'intent', run: { kind: 'state', what: 'intent', spec: leasedSpec(facts) }, after: [] },
      { id: 'finish', run: { kind: 'state', what: 'finished' }, after: [] },
    ]),
  }
}

/** Addresses and nothing else. */
function leasedSpec(facts: AddFacts): AttachmentSpec {
  const { key, conf } = facts
  return {
    key,
    // Every record has a mode; this role makes no use of it.
    mode: 'bridge',
    mtu: 0,
    ips: leaseOf(facts).ips,
    routes: [],
    defaultRoutes: [],
    podLinkDown: true,
    dad: false,
    selfHairpin: false,
    isPool: conf.ipam.kind === 'pool',
    cooldownS: conf.ipam.kind === 'pool' ? conf.ipam.cooldownS : 0,
  }
}
