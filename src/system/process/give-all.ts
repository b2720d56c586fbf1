// SPDX-License-Identifier: Apache-2.0
// The input of a process that waits for it.

import type { Writable } from 'node:stream'

/**
 * Writes all of an input, and its end, which are with the process when this returns. The end that `end` writes leaves
 * with the loop's next turn: other processes are started before that, while this one waits for it. What finds no room
 * in the pipe leaves later.
 */
export function giveAll(stdin: Writable | null, text: string): void {
  stdin?.write(text)
  // The text is in the pipe: it can be closed.
  if (stdin?.writableLength === 0) stdin.destroy()
  else stdin?.end()
}
