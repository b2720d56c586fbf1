// SPDX-License-Identifier: Apache-2.0
// What is written down for each check of `trestle lint`.

/** `error`: something will fail. `warning`: probably not what is meant. `note`: good to know. */
export type Severity = 'error' | 'warning' | 'note'

/** One check: how bad what it finds is, and what to tell about it. */
export interface Check {
  readonly severity: Severity
  readonly meaning: string
  readonly cause: string
  readonly cure: string
}

/** Checks by their ids. */
export type CheckTexts = Readonly<Record<string, Check>>
