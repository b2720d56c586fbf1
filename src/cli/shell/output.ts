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
