// SPDX-License-Identifier: Apache-2.0
// Compares two files: reads them once, and then compares the file system's marks.

import { accessSync, closeSync, constants, openSync, readSync, statSync } from 'node:fs'

/** Pairs of equal files with their marks, which reveal a change without a read. */
const same = new Map<string, string>()

/** True if `file` equals `own` and allows `mode`. Reads both files only after a change. */
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

/** Records a new copy of `own` as equal, without a read. Throws the system's error for a missing file. */
export function knowSame(file: string, own: string): void {
  same.set(file, marksOf(file, own))
}

/** A text that changes with the files. Throws the system's error for a missing file. */
export function marksOf(...files: readonly string[]): string {
  return files
    .map((file) => statSync(file))
    .map(({ dev, ino, size, mtimeMs, ctimeMs }) => [dev, ino, size, mtimeMs, ctimeMs].join(' '))
    .join(', ')
}

const blockBytes = 1024 * 1024

/** Reads block by block, since both whole files would exceed the rest of the agent's memory. */
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
