// SPDX-License-Identifier: Apache-2.0
// The only place where commands for people write. Synchronous: the process ends right after the
// command returns, and nothing may be lost then.

import { writeSync } from 'node:fs'
import { isatty } from 'node:tty'

/** Where a command writes. `hasColour`: escape sequences may be used on stdout. */
export interface Output {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  readonly hasColour: boolean
}

/** Standard output and error. Colour on a terminal only, and never with NO_COLOR (no-color.org) or TERM=dumb. */
export function standardOutput(env: Readonly<Record<string, string | undefined>> = process.env): Output {
  return {
    out: (text) => writeAll(1, text),
    err: (text) => writeAll(2, text),
    hasColour: isatty(1) && !env['NO_COLOR'] && env['TERM'] !== 'dumb',
  }
}

/** A pipe may be full (EAGAIN: tried again a millisecond later) or closed (EPIPE: nobody is left to tell). */
function writeAll(fd: number, text: string): void {
  const bytes = Buffer.from(text)
  let at = 0
  while (at < bytes.length) {
    try {
      at += writeSync(fd, bytes, at)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EPIPE') return
      if (code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}
