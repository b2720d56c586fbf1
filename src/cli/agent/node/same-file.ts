// SPDX-License-Identifier: Apache-2.0
// Whether two files have the same bytes: read once, then known by what the file system says of them.

import { accessSync, closeSync, constants, openSync, readSync, statSync } from 'node:fs'

/** The files that had the same bytes, by the marks that both had then: a changed file is noticed without reading it. */
const same = new Map<string, string>()

/**
 * Whether `file` has the same bytes as `own`, and may be started, where `mode` asks for it. Reads both, only where a
 * file has changed.
 */
export function isSameFile(file: string, own: string, mode = constants.X_OK): boolean {
  try {
    accessSync(file, mode)
    const marks = marksOf(file, own)
    if (same.get(file) === marks) return true
    if (statSync(file).size !== statSync(own).size || !haveSameBytes(file, own)) return false
    same.set(file, marks)
    return true
  } catch {
    return false
  }
}

/** `file` is a copy of `own`, just made: it need not be read. Throws the system's error where one is missing. */
export function knowSame(file: string, own: string): void {
  same.set(file, marksOf(file, own))
}

/** What changes when one of the files does. Throws the system's error where one is missing. */
export function marksOf(...files: readonly string[]): string {
  return files
    .map((file) => statSync(file))
    .map(({ dev, ino, size, mtimeMs, ctimeMs }) => [dev, ino, size, mtimeMs, ctimeMs].join(' '))
    .join(', ')
}

const blockBytes = 1024 * 1024

/** A block at a time: as a whole, both would be most of the agent's memory. */
function haveSameBytes(a: string, b: string): boolean {
  const fds = [a, b].map((file) => openSync(file, 'r'))
  const [one, other] = [Buffer.alloc(blockBytes), Buffer.alloc(blockBytes)]
  try {
    for (;;) {
      const [read = 0, alike = 0] = [readSync(fds[0] ?? -1, one), readSync(fds[1] ?? -1, other)]
      if (read !== alike || !one.subarray(0, read).equals(other.subarray(0, alike))) return false
      if (read === 0) return true
    }
  } finally {
    for (const fd of fds) closeSync(fd)
  }
}
