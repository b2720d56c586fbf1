// SPDX-License-Identifier: Apache-2.0
// All checks of `trestle lint` by their ids, which are stable: scripts select by them and `trestle explain` takes them.

import { directoryChecks } from './checks-directory.ts'
import { fileChecks } from './checks-file.ts'

/** `error`: something will fail. `warning`: probably not what is meant. `note`: good to know. */
export type Severity = 'error' | 'warning' | 'note'

export interface Check {
  readonly severity: Severity
  readonly meaning: string
  readonly cause: string
  readonly cure: string
}

export type CheckTexts = Readonly<Record<string, Check>>

export const checks = { ...fileChecks, ...directoryChecks }

export type CheckId = keyof typeof checks

/** Whether `text` is the id of a check. */
export function isCheckId(text: string): text is CheckId {
  return Object.hasOwn(checks, text)
}
