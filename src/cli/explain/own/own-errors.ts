// SPDX-License-Identifier: Apache-2.0
// Every id of an error: its code, why it comes and what to do. `trestle explain` prints it, and the second table of
// docs/errors.md is made from it (a unit test compares them).

import { codeOfId, type ErrorId, idsOfCode } from '../../../cni/model/error-code.ts'
import { addressErrors } from './address-errors.ts'
import { callErrors } from './call-errors.ts'
import { configurationErrors } from './configuration-errors.ts'
import { conflictErrors } from './conflict-errors.ts'
import type { ErrorTexts } from './error-texts.ts'
import { nodeErrors } from './node-errors.ts'

/** One id. `code`: undefined where the code is another plugin's own. */
export interface OwnError extends ErrorTexts {
  readonly id: ErrorId
  readonly code: number | undefined
}

const texts: Readonly<Record<ErrorId, ErrorTexts>> = {
  ...callErrors,
  ...configurationErrors,
  ...addressErrors,
  ...nodeErrors,
  ...conflictErrors,
}

/** Errors of other plugins, passed on with their codes. */
const passedOn: readonly ErrorId[] = ['ipam-plugin-refused', 'plugin-refused']

/** All ids, by code. */
export const ownErrors: readonly OwnError[] = Object.values(idsOfCode).flat().map(ownError)

/** What is written down for an id. */
export function ownError(id: ErrorId): OwnError {
  return { id, code: passedOn.includes(id) ? undefined : codeOfId(id), ...texts[id] }
}

/** The table of docs/errors.md, a line each. */
export function ownErrorTable(): string {
  const rows = ownErrors.map(({ id, code, cause, cure }) => `| ${id} | ${code ?? 'its own'} | ${cause} | ${cure} |`)
  return ['| id | code | cause | what to do |', '|---|---|---|---|', ...rows].join('\n')
}
