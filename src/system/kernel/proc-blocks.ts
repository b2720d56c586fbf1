// SPDX-License-Identifier: Apache-2.0
// Files of /proc that grow with the node, read only as far as needed.

import { closeSync, openSync, readSync } from 'node:fs'

const chunkBytes = 16 * 1024

/**
 * The file's lines, as many at a time as the kernel gives (a page), without the last line break. Nothing where it
 * cannot be opened. Throws the system's error where reading fails.
 */
export function* blocksOf(path: string): Generator<string> {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch {
    return
  }
  try {
    const chunk = Buffer.allocUnsafe(chunkBytes)
    let begun = ''
    for (let got = readSync(fd, chunk); got > 0; got = readSync(fd, chunk)) {
      const text = begun + chunk.toString('latin1', 0, got)
      const end = text.lastIndexOf('\n')
      begun = text.slice(end + 1)
      if (end > 0) yield text.slice(0, end)
    }
  } finally {
    closeSync(fd)
  }
}
