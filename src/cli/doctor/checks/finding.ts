// SPDX-License-Identifier: Apache-2.0
// What doctor says: which check, how bad, on what, what was seen, what comes of it, why it comes, and what to do.

import { knownErrors } from '../../explain/catalogue/known-errors.ts'
import type { Severity } from '../../lint/checks/check-texts.ts'
import type { DoctorCheck, Group } from './check.ts'
import { type DoctorCheckId, doctorChecks, isDoctorCheckId } from './checks.ts'
import { type SharedCheckId, sharedChecks } from './shared-checks.ts'

export interface Finding {
  /** One of doctor's own, of `trestle lint`, or of an error that `trestle explain` knows. */
  readonly id: string
  readonly group: Group
  readonly severity: Severity
  /** What it is about: a link, a file, a setting, a pod. */
  readonly on: string
  readonly seen: string
  readonly consequence: string
  readonly cause: string
  readonly cure: string
  /** A command that cures it, to paste. */
  readonly run?: string
}

/** What a judge found. What is not given is as the check says. */
export interface Found {
  readonly id: DoctorCheckId | SharedCheckId
  readonly on: string
  readonly seen: string
  readonly cure?: string
  readonly run?: string
  readonly severity?: Severity
}

/** The finding with the texts of its check. */
export function findingOf({ id, on, seen, cure, run, severity }: Found): Finding {
  const check = checkOf(id)
  const command = run ?? check.run
  return {
    id,
    group: check.group,
    severity: severity ?? check.severity,
    on,
    seen,
    consequence: check.meaning,
    cause: check.cause,
    cure: cure ?? check.cure,
    ...(command === undefined ? {} : { run: command }),
  }
}

/** All checks, its own and shared ones, by id. */
export function allChecks(): readonly (DoctorCheck & { readonly id: string })[] {
  const ids = [...Object.keys(doctorChecks), ...Object.keys(sharedChecks)] as (DoctorCheckId | SharedCheckId)[]
  return ids.map((id) => ({ id, ...checkOf(id) }))
}

function checkOf(id: DoctorCheckId | SharedCheckId): DoctorCheck {
  if (isDoctorCheckId(id)) return doctorChecks[id]
  const known = knownErrors.find((each) => each.id === id)
  const [meaning, causes, cure] = [known?.meaning ?? id, known?.causes ?? [], known?.cure ?? '']
  const command = known?.run === undefined ? {} : { run: known.run }
  return { ...sharedChecks[id], meaning, cause: causes.join('; or '), cure, ...command }
}
