// SPDX-License-Identifier: Apache-2.0
// The plans that an ADD may end with: stages that waited for rules, flows and default routes older than the ADD.

import type { FlowSelections } from '../../features/port-flows.ts'
import type { AttachmentSpec } from '../../model/attachment.ts'
import type { Op } from '../../model/op.ts'
import { isDone, type Plan, type PlanRun, planOf, planOfOne } from './stage.ts'
import { lastStages } from './stages.ts'

/** The last stages that had to wait for rules that were built anew; undefined when all of them have ended well. */
export function missingLast(run: PlanRun, spec: AttachmentSpec, warns: boolean): Plan | undefined {
  const stages = lastStages(spec, [], warns).filter((stage) => !isDone(run, stage))
  const plan = planOf({ id: 'last', because: 'the rules are there', stages })
  return plan.stages.length > 0 ? plan : undefined
}

/** Deletes flows that began before the rules. */
export function staleFlows(runs: readonly PlanRun[]): Plan | undefined {
  const flows = runs.flatMap(({ outcomes }) =>
    outcomes.flatMap(({ seen }): readonly FlowSelections[] => seen?.flows ?? []),
  )
  if (flows.length === 0) return undefined
  return planOfOne('flows', 'flows to the host ports began without the rules', { kind: 'flows', verb: 'delete', flows })
}

/** Takes our default routes away beside default routes that the pod had already. */
export function withoutSecondDefaults(second: readonly Extract<Op, { kind: 'route.add' }>[]): Plan {
  const why = `leave the pod's own default route alone`
  const ops = second.map(({ dev, route }): Op => ({ in: 'pod', kind: 'route.del', dev, route, why }))
  return planOfOne('default routes', 'the pod has a default route of its own', { kind: 'batch', ops })
}
