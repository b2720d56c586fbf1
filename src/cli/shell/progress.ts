// SPDX-License-Identifier: Apache-2.0
// One line that says what long work looks at now: on a terminal only, written over, gone before the result comes.

import { isatty } from 'node:tty'
import { printable } from '../../cni/model/error.ts'
import { writeAll } from '../../system/process/output.ts'

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
