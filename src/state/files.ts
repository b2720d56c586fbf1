// SPDX-License-Identifier: Apache-2.0
// Small files that only trestle writes: whole or not at all, never through a link that somebody else put there. /run is a
// tmpfs, where nothing is synced: what a power cut takes, the boot id voids anyway.

import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'

/** No file of ours is longer, and none that is longer is read. */
export const limitBytes = 1024 * 1024

/**
 * The text of a file; undefined where there is none; 'unreadable' for a directory, link, pipe, device or a long file.
 * Throws what says nothing about the file, such as too many open files.
 */
export function readText(path: string): { readonly text: string } | 'unreadable' | undefined {
  let fd: number
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    if (['ELOOP', 'ENXIO', 'ENODEV', 'ENAMETOOLONG'].includes(code)) return 'unreadable'
    throw error
  }
  try {
    const stat = fstatSync(fd)
    return stat.isFile() && stat.size <= limitBytes ? { text: readFileSync(fd, 'utf8') } : 'unreadable'
  } finally {
    closeSync(fd)
  }
}

/** The text of a file that can be read. */
export function readableText(path: string): string | undefined {
  const found = readText(path)
  return found === 'unreadable' ? undefined : found?.text
}

/** Writes a file as a whole: a reader sees the old text or the new one. Mode 0600. `flags`: more than to write. */
export function writeText(path: string, text: string, flags = 0): void {
  const temporary = writeTemporary(path, text, flags)
  try {
    renameOver(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

/** A directory in a file's place is nobody's. */
function renameOver(temporary: string, path: string): void {
  try {
    renameSync(temporary, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EISDIR') throw error
    removeFile(path)
    renameSync(temporary, path)
  }
}

/** The same outside of /run: its text is on the disk before its name. */
export function writeSynced(path: string, text: string): void {
  writeText(path, text, constants.O_SYNC)
}

/** Writes a file that must not exist; false where it does. Its text is whole as soon as its name is there. */
export function createText(path: string, text: string): boolean {
  const temporary = writeTemporary(path, text)
  try {
    return linkOnce(temporary, path)
  } finally {
    rmSync(temporary, { force: true })
  }
}

/** link(2): false where the name is taken. Makes the directory. */
export function linkOnce(existing: string, path: string): boolean {
  try {
    linkSync(existing, path)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    // The directory may have been made by another call since.
    if (code !== 'ENOENT' || !existsSync(existing)) throw error
    makeDirectory(dirname(path))
    return linkOnce(existing, path)
  }
}

export function removeFile(path: string): void {
  try {
    unlinkSync(path)
  } catch (error) {
    // rmSync tells no code of a read-only file system.
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EISDIR' || code === 'EPERM') rmSync(path, { force: true, recursive: true })
    else if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error
  }
}

/** The names in a directory; none where there is no directory. */
export function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
    throw error
  }
}

/** Whether there is anything of that name. */
export function isTaken(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

/** Full, read-only, over quota. Names can be unlinked on a full disk. */
export function isDiskRefusal(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT', 'EROFS'].includes((error as NodeJS.ErrnoException | undefined)?.code ?? '')
}

export function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    // Node reports ENOENT for a read-only file system where it makes parents (node_file.cc, MKDirpSync).
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || !existsSync(dirname(path))) throw error
    mkdirSync(path, { mode: 0o700 })
  }
}

let written = 0

/** Beside the file that it becomes: no other process, and no other call, has the same. */
export function temporaryPath(path: string): string {
  written += 1
  return `${dirname(path)}/.${process.pid}.${process.hrtime.bigint()}.${written}`
}

const temporaryName = /^\.\d+\.\d+\.\d+$/

function writeTemporary(path: string, text: string, more = 0): string {
  const temporary = temporaryPath(path)
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW | more
  let fd: number
  try {
    fd = openSync(temporary, flags, 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    makeDirectory(dirname(path))
    fd = openSync(temporary, flags, 0o600)
  }
  try {
    const bytes = Buffer.from(text)
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
    return temporary
  } catch (error) {
    // A full disk leaves an empty file behind otherwise. node:fs does not say which file could not be written.
    rmSync(temporary, { force: true })
    throw Object.assign(error as Error, { path, message: `${(error as Error).message} '${path}'` })
  } finally {
    closeSync(fd)
  }
}

/** A temporary file of a call that was killed is older than any call. */
const oldestTemporaryMs = 60_000

/** Removes temporary files that killed calls left. `oldestMs`: an older one is nobody's. */
export function sweepTemporaryFiles(directory: string, oldestMs = oldestTemporaryMs): void {
  for (const name of namesIn(directory).filter((each) => temporaryName.test(each))) {
    const stat = lstatSync(`${directory}/${name}`, { throwIfNoEntry: false })
    if (stat !== undefined && Math.abs(Date.now() - stat.mtimeMs) >= oldestMs) removeFile(`${directory}/${name}`)
  }
}
