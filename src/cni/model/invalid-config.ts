// SPDX-License-Identifier: Apache-2.0
// How trestle says that a key of the configuration has a wrong value: `<key path>: <value> is not
// <what>`, code 7, with what would do as details.

import { CniCode, CniError } from './error.ts'

/** A step into a configuration: a key, or an index of a list. */
export type PathStep = string | number

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

/** An error about the key `path`. `message` is a text of the reference or says what is wrong. */
export function configError(path: string, message: string, details?: string): CniError {
  return new CniError(CniCode.invalidConfig, `${path}: ${message}`, details === undefined ? {} : { details })
}

/** `<key path>: <value> is not <what>`; `hint` says what would do ("use ..."). */
export function notA(
  path: string,
  value: unknown,
  expected: { readonly what: string; readonly hint: string },
): CniError {
  return configError(path, `${quote(value)} is not ${expected.what}`, expected.hint)
}

/**
 * A value that cannot be left out without changing what the operator asked for: code 2 with key and
 * value (CNI spec 1.1.0, section 5).
 */
export function unsupported(path: string, value: unknown, hint: string): CniError {
  return new CniError(CniCode.unsupportedField, `unsupported value of ${path}: ${quote(value)}`, { details: hint })
}
