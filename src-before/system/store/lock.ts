// SPDX-License-Identifier: Apache-2.0
// A lock between processes without flock(2), which Node does not have. A lock is a file made by
// link(2), which fails when it exists; its text says who holds it. A dead holder's lock is replaced
// by rename(2), and only by whoever holds the lock `NAME.break`: two waiters that both saw the same
// dead holder cannot both replace it, nor can one remove the other's new lock. A breaker that died is
// broken the same way, one `.break` further.

import { linkSync, lstatSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { CniError } from '../../cni/error.ts'
import { decoded, encodeFile, number, type Of, object, or, parsedFile, text } from '../../model/kinds.ts'
import { identityFields, type ProcessIdentity } from '../../model/record.ts'
import { isDiskRefusal, linkOnce, makeDirectory, ownerMark, readText } from '../files/files.ts'
import { endProcessesOf } from '../process/call-processes.ts'
import { nowMs } from '../process/clock.ts'
import { hasEnded } from '../process/process-identity.ts'
import type { Deadline } from '../process/runner.ts'
import { span } from '../process/trace.ts'

/**
 * How a lock is taken: which file, for what (shown to those who wait), by whom, how long to wait. `deadline`: of the
 * call or of its work; waits of one call after another must not add up past it. A free lock is taken even then.
 */
export interface LockRequest {
  readonly file: string
  readonly purpose: string
  readonly owner: ProcessIdentity
  readonly waitMs: number
  readonly deadline?: Deadline
  /**
   * For removals: on a full or read-only disk the body runs without the lock, when nobody holds it. Nobody else can
   * write there either, so that what the lock keeps apart from a removal, new reservations and records, cannot come.
   */
  readonly isDispensable?: true
}

/** A lock's text: who holds it, and for what, which is shown to those who wait. */
const lockHolder = object({ ...identityFields, pid: number, purpose: or(text, '') })

const deepestBreak = 8
const longestPauseMs = 8

/**
 * Runs `body` while holding the lock. Throws CniError 11, naming the holder, when it is not free
 * within `waitMs` or before the deadline, and 106 when the deadline's signal comes.
 */
export async function withLock<T>(request: LockRequest, body: () => T | Promise<T>): Promise<T> {
  const isHeld = await take(request)
  try {
    return await body()
  } finally {
    if (isHeld) rmSync(request.file, { force: true })
  }
}

/** Whether the lock is ours; false where it could not be written and the request does without. */
async function take(request: LockRequest): Promise<boolean> {
  try {
    await poll(request, () => tryLock(request, 0))
    return true
  } catch (error) {
    if (request.isDispensable === undefined || !isDiskRefusal(error)) throw error
    await waitForHolder(request)
    return false
  }
}

/**
 * Waits until whoever holds the lock now has let it go or has ended; who takes it after that is not waited for. Nothing
 * is taken. Throws as `withLock` does.
 */
export async function waitForHolder(request: LockRequest): Promise<void> {
  const first = identityOf(request.file)
  if (first === undefined) return
  await poll(request, async () => {
    if (identityOf(request.file) !== first) return true
    if (!isAbandoned(request.file)) return false
    await endProcessesOfHolder(request)
    return true
  })
}

async function poll(request: LockRequest, isDone: () => boolean | Promise<boolean>): Promise<void> {
  const from = nowMs()
  const until = Math.min(from + request.waitMs, request.deadline?.endsAtMs ?? Number.POSITIVE_INFINITY)
  let pauseMs = 0.5
  let waited: (() => void) | undefined
  while (!(await isDone())) {
    waited ??= span(`wait, ${request.purpose}`)
    if (nowMs() > until) throw busy(request, nowMs() - from)
    if (request.deadline?.signal?.aborted) throw interrupted(request)
    await sleep(pauseMs * (0.5 + Math.random()))
    pauseMs = Math.min(pauseMs * 2, longestPauseMs)
  }
  waited?.()
}

/** Which file has the name: each holder has made its own (tryLock). */
function identityOf(file: string): string | undefined {
  const found = lstatSync(file, { throwIfNoEntry: false })
  return found && `${found.ino} ${found.ctimeMs}`
}

/** Removes a lock that a dead holder left, when there is one; a held lock is left alone. */
export async function removeAbandoned(request: LockRequest): Promise<void> {
  if (!isAbandoned(request.file) || !(await tryLock(request, 0))) return
  rmSync(request.file, { force: true })
}

/** One attempt: true when the lock is ours now. */
async function tryLock(request: LockRequest, depth: number): Promise<boolean> {
  const { file, owner } = request
  const ownFile = `${file}.${ownerMark()}.${depth}`
  writeNew(ownFile, encodeFile({ ...owner, purpose: request.purpose }))
  try {
    linkSync(ownFile, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return await tryBreak(request, ownFile, depth)
  } finally {
    rmSync(ownFile, { force: true })
  }
}

function writeNew(file: string, text: string): void {
  const write = () => writeFileSync(file, text, { mode: 0o600, flag: 'wx' })
  try {
    write()
  } catch (error) {
    // A full disk has room for the name, and not for the text.
    if (isDiskRefusal(error)) rmSync(file, { force: true })
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    makeDirectory(dirname(file))
    write()
  }
}

/** Replaces a dead holder's lock by `own`; false when the holder lives or someone else is replacing it. */
async function tryBreak(request: LockRequest, ownFile: string, depth: number): Promise<boolean> {
  if (depth >= deepestBreak || !isAbandoned(request.file)) return false
  const breaking = { ...request, file: `${request.file}.break`, purpose: `replace the abandoned ${request.file}` }
  if (!(await tryLock(breaking, depth + 1))) return false
  try {
    // Only now does nobody else replace it: look again.
    if (!isAbandoned(request.file)) return false
    await endProcessesOfHolder(request)
    if (isDirectory(request.file)) {
      // No rename replaces a directory by a file: others may take the lock as soon as it is gone.
      rmSync(request.file, { recursive: true, force: true })
      return linkOnce(ownFile, request.file)
    }
    renameSync(ownFile, request.file)
    return true
  } finally {
    rmSync(breaking.file, { force: true })
  }
}

/** What a killed holder had started would go on beside the next one. Throws CniError 11 where it does not end. */
async function endProcessesOfHolder({ file, deadline }: LockRequest): Promise<void> {
  const holder = holderOf(file)
  if (typeof holder === 'object') await endProcessesOf(holder, deadline)
}

/**
 * Whether nobody holds the lock any more. Text that names no holder was not written by us through
 * link(2): someone damaged it. A holder may release and exit between the reading and the look at its
 * process, and another take the lock: only what is still there after the holder's end is abandoned.
 */
function isAbandoned(file: string): boolean {
  const holder = holderOf(file)
  if (holder === undefined) return false
  if (holder !== 'unreadable' && !hasEnded(holder, writtenMs(file))) return false
  return isDeepStrictEqual(holderOf(file), holder)
}

/** A lock that went meanwhile is as good as new: nobody breaks it. */
function writtenMs(file: string): number {
  return lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
}

function isDirectory(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/**
 * What cannot be read now (files.ts throws) may well be held; only what is no holder's text is nobody's. Of any format:
 * a lock that another release has taken is held all the same.
 */
function holderOf(file: string): Of<typeof lockHolder> | 'unreadable' | undefined {
  const found = readText(file)
  if (found === undefined || found === 'unreadable') return found
  return decoded(lockHolder, parsedFile(found.text).parts) ?? 'unreadable'
}

function interrupted({ file, purpose }: LockRequest): CniError {
  return new CniError('call-interrupted', `interrupted by a signal while waiting for ${file}`, { details: purpose })
}

function busy(request: LockRequest, waitedMs: number): CniError {
  const holder = holderOf(request.file)
  const who = typeof holder === 'object' ? `process ${holder.pid} (${holder.purpose})` : 'others'
  return new CniError('lock-held', `${request.file} is held by ${who}`, {
    details:
      `waited ${Math.round(waitedMs)} ms to ${request.purpose}; a holder that has ended is replaced, ` +
      `this one runs`,
  })
}
