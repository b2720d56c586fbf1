// SPDX-License-Identifier: Apache-2.0
// What every verb has of its call: the machine, and how long it may wait for others.

import { type Deadline, nowMs } from '../process/clock.ts'
import { type Machine, realMachine, undoingMachine, type WrapRun } from '../process/machine.ts'

export interface Context {
  readonly machine: Machine
  /** For waiting on locks. */
  readonly deadline: Deadline
}

/** A call has 20 s; a runtime waits longer. */
const callMs = 20_000

/** `signal`: asks the call to end. `isRemoval`: DEL and GC finish their work all the same, and wait for nobody then. */
export function openContext(
  signal: AbortSignal | undefined,
  isRemoval: boolean,
  startedMs = nowMs(),
  wrap: WrapRun = (run) => run,
): Context {
  const machine = isRemoval ? undoingMachine(startedMs, wrap) : realMachine(signal, startedMs, wrap)
  return { machine, deadline: { endsAtMs: startedMs + callMs, signal } }
}

/** For taking back what an ADD made: a signal that has come already ends no wait at once, but ends it soon. */
export function undoingContext({ machine, deadline }: Context): Context {
  const endsAtMs = deadline.signal?.aborted ? Math.min(deadline.endsAtMs, nowMs() + 1000) : deadline.endsAtMs
  return { machine: machine.forUndoing(), deadline: { endsAtMs } }
}
