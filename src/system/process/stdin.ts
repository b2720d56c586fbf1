// SPDX-License-Identifier: Apache-2.0
// Standard input, read without ever being stuck in read(2): a signal is handled while a caller keeps it open in
// silence, and a call has its deadline from the start. As a rule everything is there already and is read at once.

import { constants, fstatSync, openSync, readSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CniError } from '../../cni/model/error.ts'
import { nowMs } from './clock.ts'
import { reportIgnoredWords } from './ignored-words.ts'
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

/** Reads what is there; true at the end. */
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
