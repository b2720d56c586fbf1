// SPDX-License-Identifier: Apache-2.0
// Writing to a descriptor at once: what was written is written when the process ends.

import { writeSync } from 'node:fs'

/** Writes all of the text. Throws the system's error, EPIPE where the reader has gone. */
export function writeAll(fd: number, text: string): void {
  const bytes = Buffer.from(text)
  let at = 0
  while (at < bytes.length) at += whenReady(() => writeSync(fd, bytes, at))
}

/** A pipe may be non-blocking: EAGAIN is tried again a millisecond later. */
function whenReady(attempt: () => number): number {
  for (;;) {
    try {
      return attempt()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}
