// SPDX-License-Identifier: Apache-2.0
// Locks. Node has no flock(2): a lock is a file made by link(2) that names its holder. The lock of a holder that has
// ended is taken over, after the processes that it left at work were ended.

import { lstatSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CniError, Code } from '../cni/errors.ts'
import { parseObject } from '../cni/json.ts'
import { type Deadline, hasEnded, nowMs, ownIdentity, type ProcessIdentity } from '../process/clock.ts'
import { endKilledCalls } from '../process/killed-calls.ts'
import { createText, isDiskRefusal, isTaken, readableText, removeFile, writeText } from './files.ts'

export interface LockRequest {
  readonly file: string
  /** For the message of whoever waits: "set up network net". */
  readonly purpose: string
  readonly deadline: Deadline
  /** On a full or read-only disk a removal goes on without the lock, when its holder has ended. */
  readonly isDispensable?: boolean
}

/** How long somebody else's lock is waited for. */
const longestWaitMs = 10_000

/** Runs `body` while this process holds the lock. Throws CniError 11 when somebody else holds it for too long. */
export async function withLock<T>(request: LockRequest, body: () => T | Promise<T>): Promise<T> {
  const isHeld = await take(request)
  try {
    return await body()
  } finally {
    if (isHeld) removeFile(request.file)
  }
}

/** Waits until nobody holds the lock, and removes that of a holder that has ended. */
export async function waitForLock(request: LockRequest): Promise<void> {
  const waiting = waitFor(request)
  while (isTaken(request.file)) {
    const ended = endedHolder(request.file)
    if (ended !== undefined) {
      // What it has left at work would go on beside us.
      await endKilledCalls(ended.identity, request.deadline.endsAtMs)
      removeAbandoned(request.file)
      return
    }
    await waiting(readHolder(request.file))
  }
}

/** Whether the lock names a holder that has ended. */
export function isAbandoned(file: string): boolean {
  return endedHolder(file) !== undefined
}

async function take(request: LockRequest): Promise<boolean> {
  const { file, purpose } = request
  const text = JSON.stringify({ ...ownIdentity(), purpose })
  const waiting = waitFor(request)
  for (;;) {
    try {
      if (createText(file, text)) return true
    } catch (error) {
      if (!request.isDispensable || !isDiskRefusal(error)) throw error
      await waitForLock(request)
      return false
    }
    const ended = endedHolder(file)
    if (ended !== undefined) {
      await endKilledCalls(ended.identity)
      if (takeOver(file, text)) return true
    } else await waiting(readHolder(file))
  }
}

interface Holder {
  readonly identity: ProcessIdentity | undefined
  readonly purpose: string
  readonly writtenMs: number
}

/** Undefined where the lock is gone by now. A text that cannot be read is no live call's: the lock is abandoned. */
function readHolder(file: string): Holder | undefined {
  const stat = lstatSync(file, { throwIfNoEntry: false })
  if (stat === undefined) return undefined
  const written = parseObject(readableText(file) ?? '')
  const { pid, startTime, bootId, pidNamespace, purpose } = written ?? {}
  const names = { startTime: String(startTime ?? ''), pidNamespace: String(pidNamespace ?? '') }
  const identity = typeof pid === 'number' && typeof bootId === 'string' ? { pid, bootId, ...names } : undefined
  return { identity, purpose: String(purpose ?? ''), writtenMs: stat.mtimeMs }
}

/**
 * The holder that has ended and has left its lock. One may let go and end between the two looks, and the lock be another
 * call's by then: only what still is there counts.
 */
function endedHolder(file: string): Holder | undefined {
  const holder = readHolder(file)
  if (holder === undefined) return undefined
  const isOver = holder.identity === undefined || hasEnded(holder.identity, holder.writtenMs)
  return isOver && JSON.stringify(readHolder(file)) === JSON.stringify(holder) ? holder : undefined
}

/** On a full disk it stays: nothing can be written to take it over. */
function removeAbandoned(file: string): void {
  try {
    if (takeOver(file, JSON.stringify(ownIdentity()))) removeFile(file)
  } catch (error) {
    if (!isDiskRefusal(error)) throw error
  }
}

/** After so many calls that were killed one by one, each as it replaced the one before, the last lock is just removed. */
const mostKilled = 4

/**
 * Under a second lock: of two that saw the same dead holder one would take the other's new lock away. Where the second
 * lock is that of a dead call, it is taken over in the same way.
 */
function takeOver(file: string, text: string, depth = 1): boolean {
  const second = `${file}.takeover`
  if (!createText(second, text)) {
    if (!isAbandoned(second)) return false
    if (depth === mostKilled) removeFile(second)
    if (depth === mostKilled || !takeOver(second, text, depth + 1)) return false
  }
  try {
    if (!isAbandoned(file)) return false
    writeText(file, text)
    return true
  } finally {
    removeFile(second)
  }
}

/** A function that waits a moment; throws when that has been done for too long. */
function waitFor({ file, purpose, deadline }: LockRequest): (holder: Holder | undefined) => Promise<void> {
  const untilMs = Math.min(nowMs() + longestWaitMs, deadline.endsAtMs)
  let pauseMs = 1
  return async (holder) => {
    const who = holder?.identity === undefined ? 'nobody that is known' : `process ${holder.identity.pid}`
    const held = `${file} is held by ${who} (${holder?.purpose ?? ''})`
    if (deadline.signal?.aborted) {
      const message = `interrupted by a signal while waiting for ${file} to ${purpose}`
      throw new CniError(Code.interrupted, 'call-interrupted', message, { details: held })
    }
    if (nowMs() > untilMs) {
      throw new CniError(Code.tryAgainLater, 'lock-held', `cannot ${purpose}: ${held}`, {
        details: 'the runtime tries again; if that process hangs, see what it waits for (cat /proc/PID/stack)',
      })
    }
    await sleep(pauseMs)
    pauseMs = Math.min(pauseMs * 2, 16)
  }
}
