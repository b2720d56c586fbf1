// SPDX-License-Identifier: Apache-2.0
// Output of commands for people. Writes are synchronous, because the process ends right after the command returns, and
// no output may be lost.

import { isatty } from 'node:tty'
import { printable } from '../cni/errors.ts'
import { writeAll } from '../process/stdio.ts'
import { failureOf } from './failure.ts'

/** The outputs of a command. `hasColour`: stdout accepts escape sequences. */
export interface Output {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  readonly hasColour: boolean
}

/** Standard output and error, in colour on a terminal only, never with NO_COLOR (no-color.org) or TERM=dumb. */
export function standardOutput(env: Readonly<Record<string, string | undefined>> = process.env): Output {
  const hasColour = isatty(1) && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
  return {
    out: (text) => {
      const code = refusalOf(1, hasColour ? coloured(text) : printable(text))
      // A closed pipe is no failure, since its reader wanted no more.
      if (code === undefined || code === 'EPIPE') return
      throw failureOf('output-unwritable', `cannot write to standard output: ${code}`)
    },
    // `printable` keeps escape sequences in foreign names and values from the terminal. Nothing can report a failed
    // write but the exit code.
    err: (text) => void refusalOf(2, printable(text)),
    hasColour,
  }
}

/** Names and values of others may have escape sequences: only colours reach the terminal (ECMA-48, 8.3.117). */
export function coloured(text: string): string {
  const parts = text.split(/(\u001b\[\d{1,2}m)/)
  return parts.map((part, at) => (at % 2 === 0 ? printable(part) : part)).join('')
}

/** Prints a command's result: with `-o json` its document, else its text. */
interface Printed {
  readonly command: string
  readonly document: object
  readonly text: string
  readonly code: number
}

export function print({ isJson, output }: { isJson: boolean; output: Output }, printed: Printed): number {
  const { command, document, text, code } = printed
  output.out(isJson ? jsonText({ formatVersion: 1, command, ...document, exitCode: code }) : text)
  return code
}

/** JSON.stringify leaves DEL and the C1 control characters as they are; some terminals follow these, too. */
export function jsonText(document: object): string {
  const text = JSON.stringify(document, undefined, 2)
  return `${text.replace(/[\u007f-\u009f]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`)}\n`
}

/** The error code of a failed write, like ENOSPC; undefined on success. */
function refusalOf(fd: number, text: string): string | undefined {
  try {
    writeAll(fd, text)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error)
  }
}

// The progress line of long work: on a terminal only, overwritten, and removed before the result.

/** Shows the object of the current look. */
export type Progress = (text: string) => void

/** Below the usual 80 columns of a terminal, because a wrapped line cannot be overwritten. */
const columns = 79

/** Runs `body` with a progress line on stderr; without a line if stderr is no terminal, with TERM=dumb or `-o json`. */
export async function withProgress<T>(isJson: boolean, body: (progress: Progress) => Promise<T>): Promise<T> {
  if (isJson || !isatty(2) || process.env['TERM'] === 'dumb') return await body(() => undefined)
  try {
    return await body((text) => write(printable(text.replaceAll(/[\n\t]/g, ' ')).slice(0, columns)))
  } finally {
    write('')
  }
}

/** Overwrites the line: `\r` returns to its start, EL erases it (ECMA-48, 8.3.41). */
function write(text: string): void {
  try {
    writeAll(2, `\r\x1b[K${text}`)
  } catch {
    // The terminal is gone; the work continues.
  }
}
