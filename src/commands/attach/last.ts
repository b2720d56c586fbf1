// SPDX-License-Identifier: Apache-2.0
// The end of an ADD in every mode: settings of the host's links and flows that began without the rules.

import type { AttachmentSpec } from '../../model/attachment.ts'
import { missingLast, staleFlows } from '../../plan/order/interface.ts'
import { type PlanRun, wellEnded } from '../../plan/order/stage.ts'
import type { RunPort } from '../call/beside.ts'

/** Runs the last stages that `run` could not, and deletes stale flows. `warns`: listeners of the node are reported. */
export async function runLast(
  port: RunPort,
  run: PlanRun,
  { spec, warns }: { readonly spec: AttachmentSpec; readonly warns: boolean },
): Promise<void> {
  const missing = missingLast(run, spec, warns)
  const runs = missing === undefined ? [run] : [run, wellEnded(await port.run(missing))]
  const flows = staleFlows(runs)
  if (flows !== undefined) wellEnded(await port.run(flows))
}
