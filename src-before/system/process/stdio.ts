// SPDX-License-Identifier: Apache-2.0
// Standard input, read without ever being stuck in read(2): a signal is handled while a caller keeps it open in
// silence, and a call has its deadline from the start. As a rule everything is there already and is read at once.

import { constants, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CniError, printable } from '../../cni/error.ts'
import { nowMs } from './clock.ts'
import type { Deadline } from './runner.ts'

/** The largest real configuration is a GC of a full node, 0.1 MiB. */
const limitBytes = 4 * 1024 * 1024
const chunkBytes = 64 * 1024
const longestPauseMs = 8

interface Reader {
  readonly fd: number
  readonly chunks: Buffer[]
  bytes: number
}

/**
 * All of standard input; a promise only where its end has not come yet. Throws or rejects with CniError: 5 past 4 MiB
 * or where the end does not come before the deadline, 106 when the signal comes first. `fd`: the build's warm-up has
 * another.
 */
export function readStdin(deadline: Deadline, fd = 0): string | Promise<string> {
  const reader = { fd: unblocked(fd), chunks: [], bytes: 0 }
  return readAvailable(reader) ? textOf(reader) : readRest(reader, deadline)
}

/**
 * Standard input as a descriptor whose reads return at once. What a pipe or terminal is opened as anew is ours alone;
 * a socket cannot be opened by name, and a file never waits.
 */
function unblocked(fd: number): number {
  const stat = fstatSync(fd)
  if (stat.isFile()) return fd
  if (stat.isSocket()) {
    // Made for one effect: libuv makes the descriptor non-blocking. `manualStart`: the stream reads nothing itself.
    const options = { fd, readable: true, writable: false, manualStart: true }
    new Socket(options).unref()
    return fd
  }
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch {
    return fd
  }
}

async function readRest(reader: Reader, { endsAtMs, signal }: Deadline): Promise<string> {
  reportIgnoredWords()
  let pauseMs = 1
  do {
    await sleep(pauseMs)
    pauseMs = Math.min(pauseMs * 2, longestPauseMs)
    if (signal?.aborted) {
      throw new CniError('call-interrupted', 'interrupted by a signal while the configuration was read from stdin', {
        details: `${reader.bytes} bytes had come; nothing was changed`,
      })
    }
    if (nowMs() > endsAtMs) {
      throw new CniError('stdin-not-closed', 'stdin did not end in time', {
        details: `${reader.bytes} bytes had come; the caller has to close its end after the configuration`,
      })
    }
  } while (!readAvailable(reader))
  return textOf(reader)
}

function readAvailable(reader: Reader): boolean {
  for (;;) {
    const chunk = Buffer.allocUnsafe(chunkBytes)
    const got = readOnce(reader.fd, chunk)
    if (got === undefined) return false
    if (got === 0) return true
    reader.bytes += got
    if (reader.bytes > limitBytes)
      throw new CniError('stdin-too-long', `the configuration on stdin is longer than ${limitBytes} bytes`)
    reader.chunks.push(chunk.subarray(0, got))
  }
}

function readOnce(fd: number, chunk: Buffer): number | undefined {
  try {
    return readSync(fd, chunk)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EOF') return 0
    if (code === 'EAGAIN') return undefined
    throw error
  }
}

function textOf({ chunks }: Reader): string {
  return Buffer.concat(chunks).toString('utf8')
}

// Writing to a descriptor at once: what was written is written when the process ends.

/** Writes all of the text. Throws the system's error, EPIPE where the reader has gone. */
export function writeAll(fd: number, text: string | Uint8Array): void {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text
  let at = 0
  while (at < bytes.length) at += whenReady(() => writeSync(fd, bytes, at))
}

/** A pipe may be non-blocking: EAGAIN is tried again a millisecond later. */
function whenReady(attempt: () => number): number {
  for (;;) {
    try {
      return attempt()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}

// A person with CNI_COMMAND in the shell's environment: `trestle lint FILE` is a runtime's call then, and waits for a
// configuration. Asked only where a call waits or fails: runtimes give no words.

let isReported = false

/** Says once on stderr that the words of the command line are not looked at, where standard input is a terminal. */
export function reportIgnoredWords(): void {
  const words = process.argv.slice(2)
  // Not imported above: the start-up snapshot goes without it.
  if (isReported || words.length === 0 || !process.getBuiltinModule('node:tty').isatty(0)) return
  isReported = true
  const notice = `trestle: CNI_COMMAND is set, so this is a runtime's call: "${words.join(' ')}" is ignored`
  process.stderr.write(printable(`${notice}, the configuration is read from standard input; unset CNI_COMMAND\n`))
}
