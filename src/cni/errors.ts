// SPDX-License-Identifier: Apache-2.0
// What a runtime is shown when a call fails. docs/errors.md lists every code and id.

/** Error codes. Those below 100 are used only as CNI spec 1.1.0, section 5 "Error", defines them. */
export const Code = {
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
  rangeConflict: 110,
  internal: 999,
} as const

/** The path of a key in the configuration: `['ipam', 'ranges', 0, 1, 'subnet']`. */
export type KeyPath = readonly (string | number)[]

interface ErrorParts {
  /** The command line, its stderr, what to do. May have several lines. */
  readonly details?: string | undefined
  readonly path?: KeyPath | undefined
  readonly cause?: unknown
}

/**
 * An error meant for the runtime. `message` is one line: what failed, and on what. `id` is stable and stands at the end
 * of `msg`, because runtimes print `msg` and `details` and no code; `trestle explain` knows each id.
 */
export class CniError extends Error {
  readonly code: number
  readonly id: string
  readonly details: string | undefined
  readonly path: KeyPath | undefined

  constructor(code: number, id: string, message: string, { details, path, cause }: ErrorParts = {}) {
    super(message, { cause })
    this.name = 'CniError'
    this.code = code
    this.id = id
    this.details = details
    this.path = path
  }
}

/** A key of the configuration with a wrong value: code 7, `<key path>: <message>`. */
export function configError(path: KeyPath, message: string, more: { id: string; hint?: string | undefined }): CniError {
  return new CniError(Code.invalidConfig, more.id, `${keyPathText(path)}: ${message}`, { path, details: more.hint })
}

/** The same for a value of the wrong kind. `what` completes "is not ..."; `hint` says what to use. */
export function notA(path: KeyPath, value: unknown, expected: { id: string; what: string; hint: string }): CniError {
  const { id, what, hint } = expected
  return configError(path, `${quote(value)} is not ${what}`, { id, hint })
}

/** A value that cannot be ignored without changing what was asked for: code 2, which names key and value. */
export function unsupported(path: KeyPath, value: unknown, hint: string): CniError {
  const message = `unsupported value of ${keyPathText(path)}: ${quote(value)}`
  return new CniError(Code.unsupportedField, 'unsupported-value', message, { path, details: hint })
}

/** Anything thrown as a CniError. An AggregateError becomes one error with the first code and every message. */
export function toCniError(thrown: unknown): CniError {
  // By its name: another bundle has a class of its own.
  if (thrown instanceof Error && thrown.name === 'CniError') return thrown as CniError
  if (thrown instanceof AggregateError) return joinErrors(thrown.errors.map(toCniError))
  const error = (thrown instanceof Error ? thrown : new Error(String(thrown))) as NodeJS.ErrnoException
  if (error.syscall !== undefined) return refusedFile(error)
  return new CniError(Code.internal, 'internal-error', `internal error: ${oneLine(error.message)}`, {
    details: printable(error.stack ?? error.message),
    cause: thrown,
  })
}

/** A system call that failed is foreseen: a full disk, a read-only file system, a directory in a file's place. */
function refusedFile(error: NodeJS.ErrnoException): CniError {
  const isPassing = ['EMFILE', 'ENFILE', 'ENOMEM'].includes(error.code ?? '')
  return new CniError(isPassing ? Code.tryAgainLater : Code.ioFailure, 'file-refused', oneLine(error.message), {
    details: 'make the path writable and free space on it, then repeat the call; state is kept in /run/trestle',
    cause: error,
  })
}

function joinErrors(errors: readonly CniError[]): CniError {
  const [first, ...others] = errors
  if (first === undefined) throw new TypeError('an empty list of errors')
  if (others.length === 0) return first
  const lines = errors.map((e) => [`(${e.code}) ${messageWithId(e)}`, e.details].filter(Boolean).join('\n'))
  const message = errors.map((e) => e.message).join('; ')
  return new CniError(first.code, first.id, message, { details: lines.join('\n'), path: first.path, cause: first })
}

/** The message as runtimes see it: one line that ends with the id in brackets. */
export function messageWithId({ id, message }: CniError): string {
  return `${oneLine(message)} [${id}]`
}

/**
 * The error document. `isDel`: containerd takes a DEL whose error has the words "not found" or "no such file or
 * directory" for done and never repeats it (go-cni 1.1.14, cni.go, Remove), so these words get a hyphen.
 */
export function errorDocument(error: CniError, cniVersion: string, isDel: boolean): string {
  const hyphened = (text: string) =>
    isDel ? text.replace(/not found|no such file or directory/gi, (words) => words.replace(' ', '-')) : text
  const body = { cniVersion, code: error.code, msg: hyphened(messageWithId(error)) }
  const details = error.details === undefined ? {} : { details: hyphened(printable(error.details)) }
  return `${JSON.stringify({ ...body, ...details })}\n`
}

/** Foreign text on one line, with control characters visible. */
export function oneLine(text: string): string {
  return printable(text.trim().replace(/\s*\n\s*/g, '; '))
}

/** The text with every control character but newline and tab written as `\xNN`. */
export function printable(text: string): string {
  let shown = ''
  for (const char of text) {
    const code = char.charCodeAt(0)
    const isPlain = char === '\n' || char === '\t' || !isControlCode(code)
    shown += isPlain ? char : `\\x${code.toString(16).padStart(2, '0')}`
  }
  return shown
}

/** Whether the text has a C0 or C1 control character or DEL. A loop: a Unicode pattern is compiled in each process. */
export function hasControlCharacter(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (isControlCode(text.charCodeAt(at))) return true
  return false
}

function isControlCode(code: number): boolean {
  return code < 0x20 || (code >= 0x7f && code < 0xa0)
}

/** A value as JSON, at most about 64 characters of it. */
export function quote(value: unknown): string {
  const text = JSON.stringify(typeof value === 'string' ? value.slice(0, 65) : value)
  if (text === undefined) return 'nothing'
  return text.length > 66 ? `${text.slice(0, 64)}...` : text
}

/** The key path as an operator writes it: `ipam.ranges[0][1].subnet`. */
export function keyPathText(path: KeyPath): string {
  const text = path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`)).join('')
  return text.startsWith('.') ? text.slice(1) : text
}
