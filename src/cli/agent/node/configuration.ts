// SPDX-License-Identifier: Apache-2.0
// The executable and the configuration where the runtime looks for them: the executable first, the configuration last,
// each as a whole.

import { createHash } from 'node:crypto'
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
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { ownerMark, readText, writeText } from '../../../system/files/files.ts'

/** What has the executable: its digest, and the file's own marks, by which a changed one is noticed without reading it. */
interface Known {
  readonly digest: string
  readonly marks: string
}

const known = new Map<string, Known>()

/** Whether `file` has the same bytes as `own`, and may be started. Reads 120 MB only where a file has changed. */
export function isSameProgram(file: string, own: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).size === statSync(own).size && digestOf(file) === digestOf(own)
  } catch {
    return false
  }
}

function digestOf(file: string): string {
  const { dev, ino, size, mtimeMs, ctimeMs } = statSync(file)
  const marks = [dev, ino, size, mtimeMs, ctimeMs].join(' ')
  const found = known.get(file)
  if (found?.marks === marks) return found.digest
  const digest = createHash('sha256').update(readFileSync(file)).digest('hex')
  known.set(file, { digest, marks })
  return digest
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
