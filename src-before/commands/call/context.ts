// SPDX-License-Identifier: Apache-2.0
// The time and the identity of one call, and how it opens a pod's namespace.

import { CniError } from '../../cni/error.ts'
import type { ProcessIdentity } from '../../model/record.ts'
import { type OpenNetns, openNetns } from '../../system/kernel/netns.ts'
import { starterOf } from '../../system/process/call-file.ts'
import { nowMs } from '../../system/process/clock.ts'
import { ownProcessIdentity } from '../../system/process/process-identity.ts'
import { type Deadline, type Run, runnerUntil } from '../../system/process/runner.ts'
import { phase } from '../../system/process/trace.ts'

/**
 * A call's deadline: shorter than a runtime's (docs/design.md, "The verbs"). The last part is kept for taking back
 * what was made, with a runner that neither the deadline of the work nor a signal ends.
 */
export const workMs = 15_000
const wholeMs = 20_000

export interface CallContext {
  /** For the work itself: ends at the deadline, or when the signal comes. */
  readonly run: Run
  /** For undoing and for DEL. */
  readonly cleanup: Run
  /** When the work has to be over, and the whole call: for waiting on locks. */
  readonly work: Deadline
  readonly whole: Deadline
  /** For waits where a later call can do what is left undone: the whole call, or until the signal. */
  readonly waits: Deadline
  readonly identity: ProcessIdentity
  /** Opens CNI_NETNS (system/kernel/netns.ts); the warm-up of the build has another one. */
  readonly openNetns: (path: string) => OpenNetns
}

/**
 * `signal`: aborted when the work is to end (SIGTERM, SIGINT). `startedMs`: when the call began (nowMs(),
 * milliseconds). `waitSignal`: the same for waits alone; a DEL ends no work, and has one.
 */
export function openContext(signal: AbortSignal, startedMs = nowMs(), waitSignal: AbortSignal = signal): CallContext {
  phase('prepare')
  const work = { endsAtMs: startedMs + workMs, signal }
  const whole = { endsAtMs: startedMs + wholeMs }
  const waits = { ...whole, signal: waitSignal }
  const identity = ownProcessIdentity()
  const starter = starterOf(identity)
  const [run, cleanup] = [runnerUntil(work, starter), runnerUntil(whole, starter)]
  return { run, cleanup, work, whole, waits, identity, openNetns }
}

/** How long an ADD that was told to end waits for a lock to take back what it made. */
const teardownWaitMs = 1000

/** The context for taking back: a signal that has come already ends no wait at once, but it ends it soon. */
export function contextOfTeardown(context: CallContext): CallContext {
  if (!isInterrupted(context)) return context
  const endsAtMs = Math.min(context.whole.endsAtMs, nowMs() + teardownWaitMs)
  return { ...context, waits: { endsAtMs } }
}

/** For what an ADD reads before it makes anything: a tool that hangs must not take the time for taking back. */
export function contextOfLooks(context: CallContext): CallContext {
  return { ...context, cleanup: context.run }
}

export function isInterrupted({ waits }: CallContext): boolean {
  return waits.signal?.aborted === true
}

/** Throws CniError 106 when the signal has come: what it ended may have told nobody but stderr. */
export function requireUninterrupted(context: CallContext): void {
  if (isInterrupted(context)) throw interrupted()
}

export function interrupted(): CniError {
  return new CniError('call-interrupted', 'interrupted by a signal while other calls were waited for', {
    details: 'what is left is for a later call',
  })
}

/** Opens a pod's namespace; undefined where there is none, or none any more, or the path is another thing's. */
export function openIfThere(context: CallContext, path: string): OpenNetns | undefined {
  try {
    return path === '' ? undefined : context.openNetns(path)
  } catch {
    return undefined
  }
}
