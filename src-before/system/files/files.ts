// SPDX-License-Identifier: Apache-2.0
// Small files that only we write: whole or not at all, never through a link someone else put there.
// /run is a tmpfs, where nothing is synced: what a power cut takes, the boot id voids anyway.

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
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { uptime } from 'node:os'
import { dirname } from 'node:path'
import { orElse } from '../../cni/error.ts'

/** No file of ours but the agent's memory is longer, and none that is longer is read. */
export const limitBytes = 1024 * 1024
let written = 0

/** What open(2) says where no file of ours is: a link (O_NOFOLLOW), a socket, a device, a name that is none. */
const neverOurs = ['ELOOP', 'ENXIO', 'ENODEV', 'ENAMETOOLONG']

/**
 * The text of a file; undefined when there is none; 'unreadable' for a directory, link, pipe, device or a file over
 * `mostBytes`. Throws what may be over the next time: too many open files say nothing about this one.
 */
export function readText(path: string, mostBytes = limitBytes): { readonly text: string } | 'unreadable' | undefined {
  let fd: number
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (neverOurs.includes(code)) return 'unreadable'
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
  try {
    const stat = fstatSync(fd)
    return stat.isFile() && stat.size <= mostBytes ? { text: readFileSync(fd, 'utf8') } : 'unreadable'
  } finally {
    closeSync(fd)
  }
}

/** The text of a file that can be read; undefined for another one, or none. Throws likewise. */
export function readableText(path: string): string | undefined {
  const found = readText(path)
  return found === 'unreadable' ? undefined : found?.text
}

/** Whether the file is there, and was written since the machine started. */
export function isSinceBoot(path: string): boolean {
  return orElse(() => statSync(path).mtimeMs >= Date.now() - uptime() * 1000, false)
}

/** Writes a file as a whole: a reader sees the old text or the new. Mode 0600. */
export function writeText(path: string, text: string): void {
  renameOver(writeTemporary(path, text), path)
}

/** The same on a disk, where a power cut may leave a file with a new name and no text. */
export function writeSynced(path: string, text: string): void {
  renameOver(writeTemporary(path, text, constants.O_SYNC), path)
}

function renameOver(temporary: string, path: string): void {
  try {
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

/** The same where there may be a directory: no rename replaces one by a file. */
export function replaceText(path: string, text: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory()) rmSync(path, { recursive: true, force: true })
  writeText(path, text)
}

/** Writes a file that must not exist yet; false when it does. The text is whole as soon as the name is there. */
export function createText(path: string, text: string): boolean {
  const temporary = writeTemporary(path, text)
  try {
    return linkOnce(temporary, path)
  } finally {
    rmSync(temporary, { force: true })
  }
}

/** Runs `body` with a file that holds `text` and is gone afterwards; of a killed call, sweep.ts removes it. */
export async function withTextFile<T>(directory: string, text: string, body: (path: string) => Promise<T>): Promise<T> {
  const temporary = writeTemporary(`${directory}/text`, text)
  try {
    return await body(temporary)
  } finally {
    rmSync(temporary, { force: true })
  }
}

/** link(2): true when the name was free, false when it is taken (EEXIST). Makes the directory when it is missing. */
export function linkOnce(existing: string, path: string): boolean {
  try {
    linkSync(existing, path)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    if (code !== 'ENOENT') throw error
    makeDirectory(dirname(path))
    return linkAgain(existing, path)
  }
}

/** Whether the disk is full or read-only. What is there can be unlinked on a full one. */
export function isDiskRefusal(error: unknown): boolean {
  const { code = '' } = (error ?? {}) as NodeJS.ErrnoException
  return ['ENOSPC', 'EDQUOT', 'EROFS'].includes(code)
}

/** The names in a directory; none when it does not exist. */
export function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
    throw error
  }
}

/** The names in a directory, as some look has found them. */
export type NamesIn = typeof namesIn

/** `namesIn` that reads each directory once: for looks after each other, to which it does not matter who was first. */
export function namesOnce(): NamesIn {
  const found = new Map<string, readonly string[]>()
  return (directory) => {
    const names = found.get(directory) ?? namesIn(directory)
    found.set(directory, names)
    return names
  }
}

export function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    // Node tells ENOENT for EROFS where it makes parents, too (node_file.cc, MKDirpSync).
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || !existsSync(dirname(path))) throw error
    mkdirSync(path, { mode: 0o700 })
  }
}

function linkAgain(existing: string, path: string): boolean {
  try {
    linkSync(existing, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Temporary names start with '.', which no record, address or lock does; sweep.ts reads them. */
function writeTemporary(path: string, text: string, more = 0): string {
  written += 1
  const temporary = `${dirname(path)}/.${ownerMark()}.${written}`
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW | more
  const fd = openMaking(temporary, flags)
  try {
    const bytes = Buffer.from(text)
    let at = 0
    while (at < bytes.length) at += writeSync(fd, bytes, at)
    return temporary
  } catch (error) {
    // A full disk leaves an empty file behind otherwise.
    rmSync(temporary, { force: true })
    throw error
  } finally {
    closeSync(fd)
  }
}

/** Who made a temporary file: pid namespace, pid, and the time that tells a reused pid's files apart. */
export function ownerMark(): string {
  const namespace = /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0'
  return `${namespace}.${process.pid}.${process.hrtime.bigint()}`
}

function openMaking(path: string, flags: number): number {
  try {
    return openSync(path, flags, 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    makeDirectory(dirname(path))
    return openSync(path, flags, 0o600)
  }
}
