// SPDX-License-Identifier: Apache-2.0
// What every verb has of its call: the machine, how long it may wait for others, and what a delegated plugin gets.

import { type Deadline, nowMs } from '../process/clock.ts'
import { type Machine, realMachine, undoingMachine, type WrapRun } from '../process/machine.ts'

export interface Context {
  readonly machine: Machine
  /** For waiting on locks. */
  readonly deadline: Deadline
  /** CNI_PATH, and the configuration of the present call. */
  readonly path: readonly string[]
  readonly stdin: string
}

/** A call has 20 s; a runtime waits longer. */
const callMs = 20_000

interface CallOfContext {
  readonly path?: readonly string[]
  readonly stdin?: string
  /** Asks the call to end. */
  readonly signal?: AbortSignal
  readonly startedMs?: number
  readonly wrap?: WrapRun
}

export function openContext(of: CallOfContext = {}): Context {
  const { signal, startedMs = nowMs(), wrap = (run) => run, path = [], stdin = '' } = of
  const deadline = { endsAtMs: startedMs + callMs, signal }
  return { machine: realMachine(signal, startedMs, wrap), deadline, path, stdin }
}

/** For what removes: it finishes its work although a signal asks it to end, and waits for nobody then. */
export function openRemovingContext(of: CallOfContext = {}): Context {
  const { startedMs = nowMs(), wrap = (run) => run } = of
  return { ...openContext(of), machine: undoingMachine(startedMs, wrap) }
}

/** For taking back what an ADD made: a signal that has come already does not stop it; it waits a second for locks then. */
export function undoingContext(context: Context): Context {
  const { machine, deadline } = context
  const endsAtMs = deadline.signal?.aborted ? Math.min(deadline.endsAtMs, nowMs() + 1000) : deadline.endsAtMs
  return { ...context, machine: machine.forUndoing(), deadline: { endsAtMs } }
}
