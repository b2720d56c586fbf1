// SPDX-License-Identifier: Apache-2.0
// Files of /proc that grow with the node, read only as far as needed.

import { closeSync, openSync, readSync } from 'node:fs'

const chunkBytes = 16 * 1024

/**
 * A read ends where the next line would not fit into the kernel's page, or at the end of the file (fs/seq_file.c,
 * seq_read_iter); no line is longer than half a page. To be told of the end once more, by nothing, the kernel looks
 * through all its sockets again.
 */
const halfPage = 2048

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
    for (let isLast = false; !isLast; ) {
      const got = readSync(fd, chunk)
      isLast = got < halfPage
      const text = begun + chunk.toString('latin1', 0, got)
      const end = text.lastIndexOf('\n')
      begun = text.slice(end + 1)
      if (end > 0) yield text.slice(0, end)
    }
  } finally {
    closeSync(fd)
  }
}
