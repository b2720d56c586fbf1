// SPDX-License-Identifier: Apache-2.0
// How trestle says that a key of the configuration has a wrong value: `<key path>: <value> is not
// <what>`, code 7, with what would do as details.

import { CniError, type PathStep } from './error.ts'
import type { ErrorId } from './error-code.ts'

/** The keys and indexes that lead to a value of the configuration. */
export type KeyPath = readonly PathStep[]

const LONGEST_QUOTE = 64

/** A value as JSON, at most about 64 characters of it. */
export function quote(value: unknown): string {
  const text = typeof value === 'string' ? JSON.stringify(value.slice(0, LONGEST_QUOTE + 1)) : JSON.stringify(value)
  if (text === undefined) return 'nothing'
  return text.length > LONGEST_QUOTE + 2 ? `${text.slice(0, LONGEST_QUOTE)}...` : text
}

/** The key path as an operator writes it: `ipam.ranges[0][1].subnet`. */
export function keyPath(steps: readonly PathStep[]): string {
  const text = steps.map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`)).join('')
  return text.startsWith('.') ? text.slice(1) : text
}

/** An error of code 7 about the key `path`. `message` is a text of upstream or says what is wrong. */
export function configError(
  path: KeyPath,
  message: string,
  more: { id: ErrorId; hint?: string | undefined },
): CniError {
  return new CniError(more.id, `${keyPath(path)}: ${message}`, { path, details: more.hint })
}

/** What a value would have to be; `hint` says what would do ("use ..."). */
interface Expected {
  readonly id: ErrorId
  readonly what: string
  readonly hint: string
}

/** `<key path>: <value> is not <what>`. */
export function notA(path: KeyPath, value: unknown, { id, what, hint }: Expected): CniError {
  return configError(path, `${quote(value)} is not ${what}`, { id, hint })
}

/**
 * A value that cannot be left out without changing what the operator asked for: code 2 with key and
 * value (CNI spec 1.1.0, section 5).
 */
export function unsupported(path: KeyPath, value: unknown, hint: string): CniError {
  const message = `unsupported value of ${keyPath(path)}: ${quote(value)}`
  return new CniError('unsupported-value', message, { path, details: hint })
}
