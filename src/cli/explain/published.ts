// SPDX-License-Identifier: Apache-2.0
// Explanations as findings: the shape that lint, doctor and try have too.

import type { Check } from '../lint/checks/check-texts.ts'
import type { PublishedFinding } from '../shell/document-schema.ts'
import { errorCodes } from './error-codes.ts'
import type { KnownError } from './known/known-error.ts'
import type { OwnError } from './own/own-errors.ts'
import type { Found } from './recognise.ts'

/** A known error; with its role and words where it was found in a text. */
export function ofKnown(known: KnownError | Found): PublishedFinding {
  const { id, who, meaning, causes, cure, run } = known
  const found = 'role' in known ? { role: known.role, said: known.said } : {}
  const command = run === undefined ? {} : { run }
  return { id, severity: 'error', on: who, message: meaning, cause: causes.join('; or '), cure, ...command, ...found }
}

/** An error of ours, by its id. */
export function ofOwn({ id, code, cause, cure }: OwnError): PublishedFinding {
  const meaning = errorCodes.find((each) => each.code === code)?.meaning
  const message = meaning === undefined ? "the code is the other plugin's" : `code ${code}: ${meaning}`
  return { id, severity: 'error', on: 'trestle', message, cause, cure }
}

/** A check of the command `of`. */
export function ofCheck(id: string, { severity, meaning, cause, cure }: Check, of: string): PublishedFinding {
  return { id, severity, on: of, message: meaning, cause, cure }
}
