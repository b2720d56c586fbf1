// SPDX-License-Identifier: Apache-2.0
// What doctor may mend by itself: rules, links and forwarding of our own networks, and what dead pods left of ours.
// Never rules, files, services or modules of others, and never rp_filter.

import { openContext } from '../../commands/call/context.ts'
import { restore } from '../../commands/verbs/restore.ts'
import { type SweepRequest, sweep } from '../gc/gc.ts'
import type { Progress } from '../shell/progress.ts'
import type { DoctorCheckId } from './checks/checks.ts'
import type { Finding } from './checks/finding.ts'
import type { SharedCheckId } from './checks/shared-checks.ts'

/** Mended by what `trestle restore` does. */
const restored: readonly (DoctorCheckId | SharedCheckId)[] = [
  'forwarding-off',
  'rules-missing',
  'bridge-differs',
  'route-missing',
  'port-differs',
  'alias-missing',
  'limit-missing',
  'setting-differs',
  'accept-missing',
  'state-lacks',
]

/** Mended by what `trestle gc --apply` does. */
const collected: readonly DoctorCheckId[] = ['dead-attachments', 'reservations-leaked', 'orphans', 'pending-cleanup']

/** The findings that `fix` mends. */
export function fixable(findings: readonly Finding[]): readonly Finding[] {
  return findings.filter(({ id }) => ([...restored, ...collected] as readonly string[]).includes(id))
}

/**
 * Mends them. `endpoint`, `isAsked`: of the runtime. Returns what was done, in words. Throws CniError as `restore` and
 * `gc` do.
 */
export async function fix(
  findings: readonly Finding[],
  { endpoint, isAsked, progress }: Omit<SweepRequest, 'isApplied'> & { readonly progress: Progress },
): Promise<readonly string[]> {
  const isAny = (ids: readonly string[]) => findings.some(({ id }) => ids.includes(id))
  const done: string[] = []
  if (isAny(restored)) {
    const { missing } = await restore(openContext(new AbortController().signal), true)
    done.push(...missing.map((text) => `restored: ${text}`))
  }
  if (isAny(collected)) {
    const { collected: attachments, failures } = await sweep({ endpoint, isAsked, isApplied: true }, progress)
    done.push(`collected what dead pods left (${attachments} attachments)`, ...failures)
  }
  return done
}
