// SPDX-License-Identifier: Apache-2.0
// What an ADD may end with: flows and default routes that were there before, a delegated plugin's lease, the record.

import type { AttachmentSpec, NetworkSpec } from '../model/attachment.ts'
import type { Op } from '../model/op.ts'
import type { AddFacts } from './facts.ts'
import { isDone, ran } from './progress.ts'
import { inTurn } from './reserve.ts'
import { type Plan, planOf } from './stage.ts'
import { lastStages } from './stages.ts'

/** The record is complete. */
export const finish: Plan = {
  id: 'finish',
  because: 'everything is made',
  stages: [{ id: 'finish', run: { kind: 'state', what: 'finished' }, after: [] }],
}

/** What had to wait for rules that were built anew. */
export function missingLast(facts: AddFacts, spec: AttachmentSpec): Plan | undefined {
  const stages = lastStages(spec, [], warnsOf(facts)).filter(({ id }) => !isDone(facts, id))
  const plan = planOf({ id: 'last', because: 'the rules are there', stages })
  return plan.stages.length > 0 && ran(facts, 'last') === undefined ? plan : undefined
}

/** Whether processes of the node that listen on the pod's ports are reported; else they were looked for before. */
export function warnsOf({ conf }: Pick<AddFacts, 'conf'>): boolean {
  return conf.mode === 'ipam' || conf.portmap?.onListening !== 'refuse'
}

/** Deletes flows that began before the rules. */
export function missingFlows(facts: AddFacts): Plan | undefined {
  const { flows = [] } = facts.learnt
  if (flows.length === 0 || ran(facts, 'flows') !== undefined) return undefined
  return {
    id: 'flows',
    because: 'flows to the host ports began without the rules',
    stages: [{ id: 'flows', run: { kind: 'flows', verb: 'delete', flows }, after: [] }],
  }
}

/** The addresses of a delegated plugin. */
export function askPlugin(type: string): Plan {
  return {
    id: 'lease',
    because: `${type} gives the addresses, and may need the interface for that`,
    stages: [{ id: 'lease', run: { kind: 'delegate', type, verb: 'ADD' }, after: [] }],
  }
}

/** Takes `second` away, beside default routes that the pod had already, and writes down what is left. */
export function defaultRoutes(
  spec: AttachmentSpec,
  second: readonly Extract<Op, { kind: 'route.add' }>[],
  network: NetworkSpec,
): Plan {
  const ops = second.map(
    ({ dev, route }): Op => ({
      in: 'pod',
      kind: 'route.del',
      dev,
      route,
      why: `leave the pod's own default route alone`,
    }),
  )
  return planOf({
    id: 'default routes',
    because: 'the pod has a default route of its own',
    stages: inTurn([
      { id: 'second', run: { kind: 'batch', ops }, after: [] },
      { id: 'intent', run: { kind: 'state', what: 'intent', spec, network }, after: [] },
    ]),
  })
}
