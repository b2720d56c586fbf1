// SPDX-License-Identifier: Apache-2.0
// Files without a name as a process's standard input and output. Node makes a socket and a stream of three layers of
// each pipe, which is a third of what an ADD's own code does; nft writes each word by itself (libnftables flushes after
// it), and a socket looks each time whether its reader is to be woken. A file costs two system calls and wakes nobody.

import { closeSync, constants, fstatSync, openSync, readSync, statfsSync, writeSync } from 'node:fs'

interface UnnamedFile {
  readonly fd: number
  /** All of it, as text; undefined past `limitBytes`, and empty once it is closed. */
  readonly read: (limitBytes: number) => string | undefined
  /** What it holds by now, 0 once it is closed. */
  readonly bytes: () => number
  /** May come twice: a process that could not be started has an error and an end. */
  readonly close: () => void
}

/** O_TMPFILE, which node:fs does not name (include/uapi/asm-generic/fcntl.h). */
const unnamed = 0o20000000 | constants.O_DIRECTORY

/** Room that an output has from the start: what a tool has to say on a full file system is shorter as a rule. */
const reserved = Buffer.alloc(4096)

/**
 * A file on the file system of `directory`, of mode 600: an input that holds `text`, or without one an output.
 * Undefined where there can be none, or is no room.
 */
export function openUnnamed(directory: string, text?: string): UnnamedFile | undefined {
  let fd: number | undefined
  try {
    fd = openSync(directory, constants.O_RDWR | unnamed, 0o600)
    writeAt0(fd, text === undefined ? reserved : Buffer.from(text))
    return unnamedFile(fd)
  } catch {
    if (fd !== undefined) closeSync(fd)
    return undefined
  }
}

function unnamedFile(fd: number): UnnamedFile {
  let isOpen = true
  const close = () => {
    if (isOpen) closeSync(fd)
    isOpen = false
  }
  const bytes = () => (isOpen ? fstatSync(fd).size : 0)
  return { fd, read: (limitBytes) => (isOpen ? readFrom(fd, limitBytes) : ''), bytes, close }
}

/**
 * Files for a process's standard input, unless that comes later, its output and its errors; undefined each that has to
 * be a pipe. ip, nft and iptables end well when what they print finds no room (they do not look at what fflush says):
 * where the file system may get full by a few tools that print `limitBytes`, all are pipes.
 */
export function openStandardFiles(
  directory: string,
  { input, limitBytes }: { readonly input: string | undefined; readonly limitBytes: number },
): readonly (UnnamedFile | undefined)[] {
  if (!hasRoom(directory, 4 * limitBytes)) return []
  return [
    input === undefined ? undefined : openUnnamed(directory, input),
    openUnnamed(directory),
    openUnnamed(directory),
  ]
}

/** A file system without a limit of its own (tmpfs with size=0) has no blocks. */
function hasRoom(directory: string, bytes: number): boolean {
  try {
    const { blocks, bavail, bsize } = statfsSync(directory)
    return blocks === 0 || bavail * bsize >= bytes
  } catch {
    return false
  }
}

/** How often outputs are measured: a process that prints without end fills a file faster than a pipe. */
const measureMs = 20

/** Calls `onTooMuch` when one of the files is longer than the limit, until it is cleared. */
export function watchSize(
  files: readonly (UnnamedFile | undefined)[],
  limitBytes: number,
  onTooMuch: () => void,
): NodeJS.Timeout | undefined {
  if (files.every((file) => file === undefined)) return undefined
  const look = () => {
    if (files.some((file) => file !== undefined && file.bytes() > limitBytes)) onTooMuch()
  }
  // Not unref'd: Node keeps the list of such a timer after it was cleared (lib/internal/timers.js, unenroll), and one
  // in the start-up snapshot stops all timers of a call.
  return setInterval(look, measureMs)
}

/** At positions, as everything here: the descriptor's own is the process's, which begins at 0. */
function writeAt0(fd: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, at)
}

function readFrom(fd: number, limitBytes: number): string | undefined {
  const { size } = fstatSync(fd)
  if (size > limitBytes) return undefined
  const bytes = Buffer.alloc(size)
  let at = 0
  while (at < size) {
    const read = readSync(fd, bytes, at, size - at, at)
    if (read === 0) break
    at += read
  }
  return bytes.toString('utf8', 0, endOf(bytes, at))
}

/** Where what was printed ends: the room that was not needed is zeros. */
function endOf(bytes: Buffer, size: number): number {
  if (size > reserved.length) return size
  const end = bytes.indexOf(0)
  return end === -1 ? size : end
}
