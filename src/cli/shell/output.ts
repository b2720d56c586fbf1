// SPDX-License-Identifier: Apache-2.0
// The only place where commands for people write, but for the progress line. Synchronous: the process ends right after
// the command returns, and nothing may be lost then.

import { isatty } from 'node:tty'
import { CniError, printable } from '../../cni/model/error.ts'
import { writeAll } from '../../system/process/output.ts'

/** Where a command writes. `hasColour`: escape sequences may be used on stdout. */
export interface Output {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  readonly hasColour: boolean
}

/** Standard output and error. Colour on a terminal only, and never with NO_COLOR (no-color.org) or TERM=dumb. */
export function standardOutput(env: Readonly<Record<string, string | undefined>> = process.env): Output {
  return {
    out: (text) => {
      const code = failureOf(1, text)
      // A pipe whose reader has gone is no failure: nobody is left to tell.
      if (code === undefined || code === 'EPIPE') return
      throw new CniError('output-unwritable', `cannot write to standard output: ${code}`)
    },
    // Names and values in an error are not ours: no escape sequence of theirs reaches the terminal. Where it cannot
    // be written nobody can be told, and the exit code says it.
    err: (text) => void failureOf(2, printable(text)),
    hasColour: isatty(1) && !env['NO_COLOR'] && env['TERM'] !== 'dumb',
  }
}

/** The kernel's word for why a text could not be written, like ENOSPC; undefined when it was. */
function failureOf(fd: number, text: string): string | undefined {
  try {
    writeAll(fd, text)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error)
  }
}

// One line that says what long work looks at now: on a terminal only, written over, gone before the result comes.

/** Says what is looked at now. */
export type Progress = (text: string) => void

/** A terminal has 80 columns at least as a rule; a line that wraps could not be written over. */
const columns = 79

/**
 * Runs `body` with a progress line on standard error. It says nothing where that is no terminal, with TERM=dumb, and
 * with `-o json`.
 */
export async function withProgress<T>(isJson: boolean, body: (progress: Progress) => Promise<T>): Promise<T> {
  if (isJson || !isatty(2) || process.env['TERM'] === 'dumb') return await body(() => undefined)
  try {
    return await body((text) => write(printable(text.replaceAll(/[\n\t]/g, ' ')).slice(0, columns)))
  } finally {
    write('')
  }
}

/** `\r` and EL (ECMA-48, 8.3.41): the line from its beginning, without the rest of the one before. */
function write(text: string): void {
  try {
    writeAll(2, `\r\x1b[K${text}`)
  } catch {
    // Nobody sees it any more: the work goes on.
  }
}

/** Rows of fewer than `most` columns, broken between words. */
export function rowsOf(text: string, most: number): readonly string[] {
  const rows: string[] = []
  for (const word of text.split(' ')) {
    const last = rows.at(-1)
    if (last === undefined || last.length + word.length >= most - 1) rows.push(word)
    else rows[rows.length - 1] = `${last} ${word}`
  }
  return rows
}
