// SPDX-License-Identifier: Apache-2.0
// Standard input and output of a call. Input is read without ever being stuck in read(2): a signal and the deadline count
// while a caller keeps the pipe open. As a rule everything is there and is read at once.

import { constants, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CniError, Code } from '../cni/errors.ts'
import { type Deadline, nowMs } from './clock.ts'

/** The largest real configuration is a GC of a full node, 0.1 MiB. */
const limitBytes = 4 * 1024 * 1024

/**
 * All of standard input; a promise only where its end has not come yet. Throws or rejects with CniError: 5 past 4 MiB
 * or past the deadline, 106 when the signal comes first.
 */
export function readStdin(deadline: Deadline, fd = 0): string | Promise<string> {
  const input = { fd: nonBlocking(fd), chunks: [] as Buffer[], bytes: 0 }
  return readAvailable(input) ? Buffer.concat(input.chunks).toString('utf8') : readRest(input, deadline)
}

type Input = { readonly fd: number; readonly chunks: Buffer[]; bytes: number }

/** What a pipe is opened as again is ours alone; a socket cannot be opened by name, and a file never waits. */
function nonBlocking(fd: number): number {
  const stat = fstatSync(fd)
  if (stat.isFile()) return fd
  if (stat.isSocket()) {
    // Made for one effect: libuv makes the descriptor non-blocking. `manualStart`: the stream reads nothing itself.
    new Socket({ fd, readable: true, writable: false, manualStart: true } as object).unref()
    return fd
  }
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch {
    return fd
  }
}

async function readRest(input: Input, { endsAtMs, signal }: Deadline): Promise<string> {
  let pauseMs = 1
  do {
    await sleep(pauseMs)
    pauseMs = Math.min(pauseMs * 2, 8)
    const details = `${input.bytes} bytes had come; the caller has to close its end after the configuration`
    if (signal?.aborted) {
      const message = 'interrupted by a signal while the configuration was read from stdin'
      throw new CniError(Code.interrupted, 'call-interrupted', message, { details })
    }
    if (nowMs() > endsAtMs)
      throw new CniError(Code.ioFailure, 'stdin-not-closed', 'stdin did not end in time', { details })
  } while (!readAvailable(input))
  return Buffer.concat(input.chunks).toString('utf8')
}

/** Reads what is there; true at the end of the input. */
function readAvailable(input: Input): boolean {
  for (;;) {
    const chunk = Buffer.allocUnsafe(64 * 1024)
    let size: number
    try {
      size = readSync(input.fd, chunk)
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'EOF') return true
      if (code === 'EAGAIN') return false
      throw new CniError(Code.ioFailure, 'stdin-unreadable', `error reading from stdin: ${message}`, { cause: error })
    }
    if (size === 0) return true
    input.bytes += size
    input.chunks.push(chunk.subarray(0, size))
    const message = `the configuration on stdin is longer than ${limitBytes} bytes`
    if (input.bytes > limitBytes) throw new CniError(Code.ioFailure, 'stdin-too-long', message)
  }
}

/** Writes all of it at once. Throws the system's error: EPIPE where the reader has gone. */
export function writeAll(fd: number, text: string | Uint8Array): void {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(fd, bytes, at)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      // The pipe is full and non-blocking: try again a millisecond later.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}
