// SPDX-License-Identifier: Apache-2.0
// Garbage collection by the agent: `trestle gc --apply` with the runtime's list of sandboxes. Without an answer of the
// runtime nothing is collected.

import { sweep } from '../../gc/gc.ts'
import type { Settings } from '../settings/settings.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'

/** Collects garbage and logs it. Throws CniError when the look fails. */
export async function collectGarbage({
  settings,
  log,
  metrics,
}: {
  readonly settings: Settings
  readonly log: Log
  readonly metrics: Metrics
}): Promise<void> {
  const request = { endpoint: settings.runtimeEndpoint, isAsked: true }
  const found = await sweep({ ...request, isApplied: false }, () => undefined)
  const all = [...found.verdicts, ...found.reservations, ...found.orphans]
  const count = (verdict: string) => all.filter((each) => each.verdict === verdict).length
  metrics.orphans.set(count('report'))
  if (found.living.listed === undefined || count('collect') + found.inTheWay.length === 0) return
  const { collected, failures } = await sweep({ ...request, isApplied: true }, () => undefined)
  metrics.collected.inc(count('collect'))
  log('info', 'garbage collected', { attachments: collected, all: count('collect'), failures })
}
