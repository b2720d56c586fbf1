// SPDX-License-Identifier: Apache-2.0
// The time and the identity of one call, and how it opens a pod's namespace.

import type { ProcessStamp } from '../plan/record.ts'
import { type OpenNetns, openNetns } from '../system/netns.ts'
import { type Deadline, type Run, runnerUntil } from '../system/runner.ts'
import { ownStamp } from '../system/stamp.ts'

/**
 * A call's deadline: shorter than a runtime's (contract §3). The last part is kept for taking back
 * what was made, with a runner that neither the deadline of the work nor a signal ends.
 */
export const workMs = 15_000
const wholeMs = 20_000

/** What every verb works with. */
export interface CallContext {
  /** For the work itself: ends at the deadline, or when the signal comes. */
  readonly run: Run
  /** For undoing and for DEL. */
  readonly cleanup: Run
  /** When the work has to be over, and the whole call: for waiting on locks. */
  readonly work: Deadline
  readonly whole: Deadline
  readonly stamp: ProcessStamp
  /** Opens CNI_NETNS (system/netns.ts); the warm-up of the build has another one. */
  readonly openNetns: (path: string) => OpenNetns
}

/** `signal`: aborted on SIGTERM or SIGINT. `startedMs`: when the call began (performance.now() milliseconds). */
export function openContext(signal: AbortSignal, startedMs = performance.now()): CallContext {
  const work = { endsAtMs: startedMs + workMs, signal }
  const whole = { endsAtMs: startedMs + wholeMs }
  return { run: runnerUntil(work), cleanup: runnerUntil(whole), work, whole, stamp: ownStamp(), openNetns }
}

/**
 * Opens a pod's namespace; undefined where there is none, or where the path is that of no pod. One that was there may be
 * gone by now.
 */
export function openIfThere(context: CallContext, path: string): OpenNetns | undefined {
  try {
    return path === '' ? undefined : context.openNetns(path)
  } catch {
    return undefined
  }
}
