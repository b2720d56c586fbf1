// SPDX-License-Identifier: Apache-2.0
// What trestle tells a runtime when a call fails. Codes 0-99 are the specification's, used only as
// it defines them (CNI spec 1.1.0, section 5 "Error"); 100 and up are ours and listed in docs/errors.md.

/** Error codes. Numbers below 100: CNI spec 1.1.0, section 5. */
export const CniCode = {
  incompatibleVersion: 1,
  unsupportedField: 2,
  unknownContainer: 3,
  invalidEnvironment: 4,
  ioFailure: 5,
  decodingFailure: 6,
  invalidConfig: 7,
  tryAgainLater: 11,
  notAvailable: 50,
  limitedConnectivity: 51,
  commandFailed: 100,
  poolExhausted: 101,
  addressUnavailable: 102,
  attachmentExists: 103,
  hostPortTaken: 104,
  delegateFailed: 105,
  interrupted: 106,
  checkFailed: 107,
  bridgeConflict: 108,
  cleanupIncomplete: 109,
  rangeOverlap: 110,
  otherHost: 111,
  internal: 999,
} as const

/** One of the numbers in `CniCode`, or a delegated plugin's own code passed on. */
export type CniCodeNumber = number

/** The part of a CNI error that is written out: CNI spec 1.1.0, section 5 "Error". */
export interface CniErrorBody {
  readonly cniVersion: string
  readonly code: CniCodeNumber
  readonly msg: string
  readonly details?: string
}

/**
 * An error meant for the runtime. `message` is one line: what failed, and on what. `details` may be
 * longer: the command line, its stderr, what to do.
 */
export class CniError extends Error {
  readonly code: CniCodeNumber
  readonly details: string | undefined

  constructor(code: CniCodeNumber, message: string, more: { details?: string; cause?: unknown } = {}) {
    super(message, { cause: more.cause })
    this.name = 'CniError'
    this.code = code
    this.details = more.details
  }
}

/**
 * The one funnel from anything thrown to a CniError. An AggregateError (DEL and GC go on after a
 * failure and throw all of them) becomes one error with the first code and every message.
 */
export function toCniError(thrown: unknown): CniError {
  if (thrown instanceof CniError) return thrown
  if (thrown instanceof AggregateError) return joinErrors(thrown.errors.map(toCniError))
  const error = thrown instanceof Error ? thrown : new Error(String(thrown))
  // A full disk, a read-only file system, a directory where a file belongs: no defect of ours.
  const cure = isSystemError(error) ? 'make the path writable, with free space' : isFull(error) ? fullCure : undefined
  if (cure !== undefined) {
    return new CniError(CniCode.ioFailure, oneLine(error.message), {
      details: `${cure}; the call can be repeated`,
      cause: thrown,
    })
  }
  return new CniError(CniCode.internal, `internal error: ${oneLine(error.message)}`, {
    details: printable(error.stack ?? error.message),
    cause: thrown,
  })
}

/** A file operation that the kernel refused: node:fs tells call and path. */
function isSystemError(error: Error & { readonly syscall?: unknown; readonly path?: unknown }): boolean {
  return typeof error.syscall === 'string' && typeof error.path === 'string'
}

/** write(2) of an open file: node:fs tells no path. */
function isFull({ code }: Error & { readonly code?: unknown }): boolean {
  return code === 'ENOSPC' || code === 'EDQUOT'
}

const fullCure = 'make room where state is kept, /run/trestle as a rule'

function joinErrors(errors: readonly CniError[]): CniError {
  const first = errors[0]
  if (first === undefined) return new CniError(CniCode.internal, 'internal error: an empty list of errors')
  if (errors.length === 1) return first
  const details = errors.map((e) => [`(${e.code}) ${e.message}`, e.details].filter(Boolean).join('\n')).join('\n')
  return new CniError(first.code, errors.map((e) => e.message).join('; '), { details, cause: first })
}

/** The JSON body of an error, with control characters made visible: configs and stderr are not ours. */
export function errorBody(error: CniError, cniVersion: string): CniErrorBody {
  const body = { cniVersion, code: error.code, msg: oneLine(error.message) }
  return error.details === undefined ? body : { ...body, details: printable(error.details) }
}

/**
 * The body with a hyphen in "not-found" and "no-such file or directory". containerd takes a DEL for done whose error has
 * these words anywhere (go-cni 1.1.14, cni.go, Remove; the second only without a namespace), and never sends it again:
 * a delegate's words, or the kernel's, must not end what is still to be done.
 */
export function withoutDoneWords(body: CniErrorBody): CniErrorBody {
  const hyphened = (text: string) => text.replace(/not found|no such file or directory/gi, joined)
  const { msg, details } = body
  return { ...body, msg: hyphened(msg), ...(details === undefined ? {} : { details: hyphened(details) }) }
}

function joined(found: string): string {
  return found.replace(' ', '-')
}

/** `text` on one line, control characters escaped. */
export function oneLine(text: string): string {
  return printable(text.trim().replace(/\s*\n\s*/g, '; '))
}

/** `text` with every control character but newline and tab written as `\xNN`. */
export function printable(text: string): string {
  return [...text].map((c) => (isControl(c) ? `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}` : c)).join('')
}

function isControl(char: string): boolean {
  const code = char.charCodeAt(0)
  return (code < 0x20 && char !== '\n' && char !== '\t') || (code >= 0x7f && code < 0xa0)
}
