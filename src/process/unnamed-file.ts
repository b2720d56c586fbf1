// SPDX-License-Identifier: Apache-2.0
// Files without a name as a process's standard input and output. Node makes a socket and a stream of three layers of
// each pipe, which is a third of what an ADD's own code does; nft writes each word by itself (libnftables flushes after
// it), and a socket looks each time whether its reader is to be woken. A file costs two system calls and wakes nobody.

import { closeSync, constants, fstatSync, openSync, readSync, statfsSync, writeSync } from 'node:fs'

/** O_TMPFILE, which node:fs does not name (include/uapi/asm-generic/fcntl.h). */
const unnamed = 0o20000000 | constants.O_DIRECTORY

/** Room that an output has from the start: what a tool has to say on a full file system is shorter as a rule. */
const reserved = Buffer.alloc(4096)

/** A file of mode 600. Read and written at positions: the descriptor's own is the process's, which begins at 0. */
class UnnamedFile {
  readonly fd: number
  #isOpen = true

  constructor(fd: number) {
    this.fd = fd
  }

  write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) at += writeSync(this.fd, bytes, at, bytes.length - at, at)
  }

  /** What it holds by now, 0 once it is closed. */
  bytes(): number {
    return this.#isOpen ? fstatSync(this.fd).size : 0
  }

  /** All of it, as text; undefined past `limitBytes`, and empty once it is closed. */
  read(limitBytes: number): string | undefined {
    const size = this.bytes()
    if (size > limitBytes) return undefined
    const bytes = Buffer.alloc(size)
    let at = 0
    for (let read = 1; at < size && read > 0; at += read) read = readSync(this.fd, bytes, at, size - at, at)
    // The room that was not needed is zeros.
    const end = at > reserved.length ? at : bytes.indexOf(0)
    return bytes.toString('utf8', 0, end === -1 ? at : end)
  }

  /** May come twice: a process that could not be started has an error and an end. */
  close(): void {
    if (this.#isOpen) closeSync(this.fd)
    this.#isOpen = false
  }
}

/**
 * A file on the file system of `directory`: an input that holds `text`, or without one an output. Undefined where there
 * can be none, or is no room.
 */
function openUnnamed(directory: string, text?: string): UnnamedFile | undefined {
  let file: UnnamedFile | undefined
  try {
    file = new UnnamedFile(openSync(directory, constants.O_RDWR | unnamed, 0o600))
    file.write(text === undefined ? reserved : Buffer.from(text))
    return file
  } catch {
    file?.close()
    return undefined
  }
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
  const stdin = input === undefined ? undefined : openUnnamed(directory, input)
  return [stdin, openUnnamed(directory), openUnnamed(directory)]
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

/**
 * Calls `onTooMuch` when one of the files is longer than the limit, until it is cleared. Not unref'd, as no timer here:
 * Node keeps the list of such a one after it was cleared (lib/internal/timers.js, unenroll), and a list in the start-up
 * snapshot stops all timers of a call.
 */
export function watchSize(
  files: readonly (UnnamedFile | undefined)[],
  limitBytes: number,
  onTooMuch: () => void,
): NodeJS.Timeout | undefined {
  if (files.every((file) => file === undefined)) return undefined
  return setInterval(() => files.some((file) => file && file.bytes() > limitBytes) && onTooMuch(), measureMs)
}
