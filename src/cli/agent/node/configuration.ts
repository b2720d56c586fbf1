// SPDX-License-Identifier: Apache-2.0
// The executable and the configuration where the runtime looks for them: the executable first, the configuration last,
// each as a whole.

import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { ownerMark, readText, writeText } from '../../../system/files/files.ts'

/** The files that had the same bytes, by the marks that both had then: a changed file is noticed without reading it. */
const same = new Map<string, string>()

/** Whether `file` has the same bytes as `own`, and may be started. Reads 120 MB, only where a file has changed. */
export function isSameProgram(file: string, own: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    const marks = marksOf(file, own)
    if (same.get(file) === marks) return true
    if (statSync(file).size !== statSync(own).size || !haveSameBytes(file, own)) return false
    same.set(file, marks)
    return true
  } catch {
    return false
  }
}

function marksOf(...files: readonly string[]): string {
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

/** Puts `own` at `file`: beside it under another name, then in its place. One that is running goes on with the old file. */
export function installProgram(file: string, own: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  const temporary = `${dirname(file)}/.trestle.${ownerMark()}`
  try {
    copyFileSync(own, temporary)
    chmodSync(temporary, 0o755)
    const fd = openSync(temporary, 'r')
    fsyncSync(fd)
    closeSync(fd)
    renameSync(temporary, file)
    same.set(file, marksOf(file, own))
  } finally {
    rmSync(temporary, { force: true })
  }
}

/** Writes the configuration where it is not there as it should be. Returns whether it had to. */
export function writeConfiguration(file: string, text: string): boolean {
  const found = readText(file)
  if (found !== undefined && found !== 'unreadable' && found.text === text) return false
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  writeText(file, text)
  return true
}

/** The files that a runtime takes for configurations and that sort before ours: it uses the first one (libcni, ConfFiles). */
export function sortsBefore(directory: string, name: string): readonly string[] {
  try {
    const names = readdirSync(directory).filter((each) => /\.(conf|conflist|json)$/.test(each))
    return names.filter((each) => each < name).sort()
  } catch {
    return []
  }
}
