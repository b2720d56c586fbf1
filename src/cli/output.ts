// SPDX-License-Identifier: Apache-2.0
// The only place where commands for people write. Synchronous: the process ends right after the
// command returns, and nothing may be lost then.

import { isatty } from 'node:tty'
import { writeAll } from '../system/output.ts'

/** Where a command writes. `hasColour`: escape sequences may be used on stdout. */
export interface Output {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  readonly hasColour: boolean
}

/** Standard output and error. Colour on a terminal only, and never with NO_COLOR (no-color.org) or TERM=dumb. */
export function standardOutput(env: Readonly<Record<string, string | undefined>> = process.env): Output {
  return {
    out: (text) => writeUnlessClosed(1, text),
    err: (text) => writeUnlessClosed(2, text),
    hasColour: isatty(1) && !env['NO_COLOR'] && env['TERM'] !== 'dumb',
  }
}

/** A pipe whose reader has gone is no failure: nobody is left to tell. */
function writeUnlessClosed(fd: number, text: string): void {
  try {
    writeAll(fd, text)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error
  }
}
