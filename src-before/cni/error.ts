// SPDX-License-Identifier: Apache-2.0
// What trestle tells a runtime when a call fails. Codes 0-99 are the specification's, used only as
// it defines them (CNI spec 1.1.0, section 5 "Error"); 100 and up are ours. docs/errors.md lists codes and ids.

import { type CniCodeNumber, codeOfId, type ErrorId } from './error-code.ts'

/** The part of a CNI error that is written out: CNI spec 1.1.0, section 5 "Error". */
interface CniErrorBody {
  readonly cniVersion: string
  readonly code: CniCodeNumber
  readonly msg: string
  readonly details?: string
}

export type PathStep = string | number

interface ErrorParts {
  readonly details?: string | undefined
  /** The key of the configuration that it is about. */
  readonly path?: readonly PathStep[] | undefined
  readonly cause?: unknown
  /** Another plugin's own code, where its error is passed on. */
  readonly code?: CniCodeNumber
  readonly alsoIds?: readonly ErrorId[]
}

/**
 * An error meant for the runtime. `id` says which failure it is and gives the code. `message` is one line: what failed,
 * and on what. `details` may be longer: the command line, its stderr, what to do.
 */
export class CniError extends Error {
  readonly id: ErrorId
  readonly code: CniCodeNumber
  readonly details: string | undefined
  readonly path: readonly PathStep[] | undefined
  /** The ids of other failures that it stands for as well: DEL and GC go on after one. */
  readonly alsoIds: readonly ErrorId[]

  constructor(id: ErrorId, message: string, { details, path, cause, code, alsoIds }: ErrorParts = {}) {
    super(message, { cause })
    this.name = 'CniError'
    this.id = id
    this.code = code ?? codeOfId(id)
    this.details = details
    this.path = path
    this.alsoIds = alsoIds ?? []
  }
}

/**
 * The one funnel from anything thrown to a CniError. An AggregateError (DEL and GC go on after a
 * failure and throw all of them) becomes one error with the first code and every message.
 */
export function toCniError(thrown: unknown): CniError {
  // Also the core's own: it has the same fields.
  if (thrown instanceof Error && thrown.name === 'CniError') return thrown as CniError
  if (thrown instanceof AggregateError) return joinErrors(thrown.errors.map(toCniError))
  const error = thrown instanceof Error ? thrown : new Error(String(thrown))
  // A full disk, a read-only file system, a directory where a file belongs: no defect of ours.
  if (isSystemError(error)) return refusedFile('file-refused', error, 'make the path writable, with free space')
  if (isFull(error)) return refusedFile('file-refused', error, 'make room where state is kept, /run/trestle as a rule')
  return new CniError('internal-error', `internal error: ${oneLine(error.message)}`, {
    details: printable(error.stack ?? error.message),
    cause: thrown,
  })
}

function refusedFile(id: ErrorId, error: Error, cure: string): CniError {
  return new CniError(id, oneLine(error.message), { details: `${cure}; the call can be repeated`, cause: error })
}

/** A file operation that the kernel refused: node:fs tells call and path. */
function isSystemError(error: Error & { readonly syscall?: unknown; readonly path?: unknown }): boolean {
  return typeof error.syscall === 'string' && typeof error.path === 'string'
}

/** write(2) of an open file: node:fs tells no path. */
function isFull({ code }: Error & { readonly code?: unknown }): boolean {
  return code === 'ENOSPC' || code === 'EDQUOT'
}

function joinErrors(errors: readonly CniError[]): CniError {
  const first = errors[0]
  if (first === undefined) return new CniError('internal-error', 'internal error: an empty list of errors')
  if (errors.length === 1) return first
  const { id, code, path } = first
  const details = errors.map((e) => [`(${e.code}) ${e.message}`, e.details].filter(Boolean).join('\n')).join('\n')
  const alsoIds = errors.flatMap((e) => [e.id, ...(e.alsoIds ?? [])]).filter((each) => each !== id)
  const message = errors.map((e) => e.message).join('; ')
  return new CniError(id, message, { details, path, code, alsoIds, cause: first })
}

/** The message with the id at its end, in brackets: runtimes print `msg` and `details`, and no code. */
export function messageWithId({ id, message, alsoIds = [] }: CniError): string {
  return `${oneLine(message)} [${[...new Set([id, ...alsoIds])].join(', ')}]`
}

/** The JSON body of an error, with control characters made visible: configs and stderr are not ours. */
export function errorBody(error: CniError, cniVersion: string): CniErrorBody {
  const body = { cniVersion, code: error.code, msg: messageWithId(error) }
  return error.details === undefined ? body : { ...body, details: printable(error.details) }
}

/**
 * The body with a hyphen in "not-found" and "no-such file or directory". containerd takes a DEL for done whose error
 * has these words anywhere (go-cni 1.1.14, cni.go, Remove; the second only without a namespace), and never sends it
 * again: a delegate's words, or the kernel's, must not end what is still to be done.
 */
export function withoutDoneWords(body: CniErrorBody): CniErrorBody {
  const hyphened = (text: string) => text.replace(/not found|no such file or directory/gi, joined)
  const { msg, details } = body
  return { ...body, msg: hyphened(msg), ...(details === undefined ? {} : { details: hyphened(details) }) }
}

function joined(found: string): string {
  return found.replace(' ', '-')
}

export function oneLine(text: string): string {
  return printable(text.trim().replace(/\s*\n\s*/g, '; '))
}

/** `text` with every control character but newline and tab written as `\xNN`. */
export function printable(text: string): string {
  return [...text].map(printableCharacter).join('')
}

function printableCharacter(char: string): string {
  const code = char.charCodeAt(0)
  const isShown = char === '\n' || char === '\t' || !isControlCode(code)
  return isShown ? char : `\\x${code.toString(16).padStart(2, '0')}`
}

/** What `work` returns, or `otherwise` where it throws, whatever the error is. */
export function orElse<T, E>(work: () => T, otherwise: E): T | E {
  try {
    return work()
  } catch {
    return otherwise
  }
}

// Control characters in text that others wrote. A loop, as a Unicode regular expression would be
// compiled anew in every process.

/** Whether `text` has a C0 or C1 control character or DEL (Unicode category Cc). */
export function hasControlCharacter(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    if (isControlCode(text.charCodeAt(at))) return true
  }
  return false
}

function isControlCode(code: number): boolean {
  return code < 0x20 || (code >= 0x7f && code < 0xa0)
}

// How trestle says that a key of the configuration has a wrong value: `<key path>: <value> is not
// <what>`, code 7, with what would do as details.

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

export function notA(path: KeyPath, value: unknown, { id, what, hint }: Expected): CniError {
  return configError(path, `${quote(value)} is not ${what}`, { id, hint })
}

/** A value that cannot be ignored without changing what was asked for: code 2, with key and value. */
export function unsupported(path: KeyPath, value: unknown, hint: string): CniError {
  const message = `unsupported value of ${keyPath(path)}: ${quote(value)}`
  return new CniError('unsupported-value', message, { path, details: hint })
}
