// SPDX-License-Identifier: Apache-2.0
// A configuration that a person names: a file, or `-` for standard input.

import { readFileSync, statSync } from 'node:fs'
import { isatty } from 'node:tty'
import { CniError, Code } from '../cni/errors.ts'
import { failureOf } from './failure.ts'
import { positionOf, readJsonText } from './json-text.ts'
import { standardOutput } from './output.ts'

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'a directory, where a file is needed',
  EACCES: 'permission denied: run it as root',
  EPERM: 'permission denied',
}

const pipeHint = 'pass the text on standard input, with -'

/** True for a named pipe, whose open(2) would wait for a writer forever. A shell's <(…) has no such name. */
function isNamedPipe(file: string): boolean {
  return !/^(?:-$|\/dev\/|\/proc\/)/.test(file) && statSync(file).isFIFO()
}

/** A configuration of this size is a mistake; for a directory's files the same holds. */
export const longestBytes = 1024 * 1024

/** The text of a configuration. Throws CniError 5 when a read fails, or for a text that is far too long. */
export function readConfigurationText(file: string): string {
  const text = readInputText(file)
  if (text.length <= longestBytes) return text
  throw failureOf('input-unreadable', `${nameOf(file)} has more than ${longestBytes} characters`, {
    details: 'name a file that holds one network configuration',
  })
}

/** The text of a file or of standard input. Throws CniError 5 when a read fails. */
export function readInputText(file: string): string {
  if (file === '-' && isatty(0)) standardOutput().err('trestle: reading standard input, to its end (Ctrl-D)\n')
  try {
    if (isNamedPipe(file)) throw failureOf('input-unreadable', `cannot read ${file}: a named pipe; ${pipeHint}`)
    return readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (cause) {
    throw isCniError(cause) ? cause : unreadable(file, cause)
  }
}

/** The error for an unreadable file of a person. `cause`: the system's error. */
export function unreadable(file: string, cause: unknown): CniError {
  const { code = '', message } = cause as NodeJS.ErrnoException
  return failureOf('input-unreadable', `cannot read ${nameOf(file)}: ${reasons[code] ?? message}`, { cause })
}

/**
 * The result of `read` for the text of a file. Puts the file's name into errors, also into those of a promise, because
 * the readers speak of stdin.
 */
export function readFileAs<T>(file: string, read: (text: string) => T): T {
  const text = readConfigurationText(file)
  const named = (thrown: unknown): never => {
    if (!isCniError(thrown)) throw thrown
    if (text.trim() === '')
      throw failureOf('not-json', `${nameOf(file)}: it is empty`, { details: 'give it a network configuration' })
    const problem = thrown.id === 'not-json' ? readJsonText(text).problems[0] : undefined
    const place = positionOf(text, problem?.offset ?? 0)
    const message = problem
      ? `${problem.message} at line ${place.line}, column ${place.column}`
      : thrown.message.replace('error unmarshall network config: ', '')
    const details = thrown.code === Code.decodingFailure ? '`trestle lint` shows the place' : thrown.details
    throw new CniError(thrown.code, thrown.id, `${nameOf(file)}: ${message}`, {
      details,
      path: thrown.path,
      cause: thrown,
    })
  }
  try {
    const result = read(text)
    return result instanceof Promise ? (result.catch(named) as T) : result
  } catch (thrown) {
    return named(thrown)
  }
}

function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file
}

/** Of the core, too, which has a class of its own. */
function isCniError(thrown: unknown): thrown is CniError {
  return thrown instanceof Error && thrown.name === 'CniError'
}
