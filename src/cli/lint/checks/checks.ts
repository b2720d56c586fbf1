// SPDX-License-Identifier: Apache-2.0
// All checks of `trestle lint` by their ids, which are stable: scripts select by them and `trestle explain` takes them.

import { directoryChecks } from './checks-directory.ts'
import { fileChecks } from './checks-file.ts'
import { runtimeChecks } from './checks-runtimes.ts'

/** Every check. */
export const checks = { ...fileChecks, ...directoryChecks, ...runtimeChecks }

/** The id of a check. */
export type CheckId = keyof typeof checks

/** Whether `text` is the id of a check. */
export function isCheckId(text: string): text is CheckId {
  return Object.hasOwn(checks, text)
}
