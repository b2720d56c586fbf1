// SPDX-License-Identifier: Apache-2.0
// The processes that a call has run, for what keeps the call (commands/record/keeper.ts). References only: nothing is
// copied or written on the way, and nothing is noted by the agent or by commands for people, which begin none.

import { nowMs } from './clock.ts'
import type { Command, Output } from './runner.ts'

/** A process of a call. Without `ms` it was still at work when the call ended. Times: nowMs(), milliseconds. */
export interface Execution {
  readonly command: Command
  readonly startMs: number
  stdin?: string
  ms?: number
  output?: Output
  failure?: string
}

let executions: Execution[] | undefined

export function noteExecutions(): void {
  executions = []
}

/** The list; it ends with that. */
export function notedExecutions(): readonly Execution[] {
  const noted = executions ?? []
  executions = undefined
  return noted
}

interface Settle {
  readonly resolve: (output: Output) => void
  readonly reject: (error: Error) => void
}

/** Notes a process that is being started. Returns `settle`, which notes the end as well. */
export function noteExecution<T extends Settle>(command: Command, settle: T): Settle {
  if (executions === undefined) return settle
  const execution: Execution = { command, startMs: nowMs() }
  executions.push(execution)
  const ended = () => {
    execution.ms ??= nowMs() - execution.startMs
  }
  return {
    resolve: (output) => {
      ended()
      execution.output = output
      settle.resolve(output)
    },
    reject: (error) => {
      ended()
      execution.failure = error.message
      settle.reject(error)
    },
  }
}

export function noteInput(command: Command, stdin: string): void {
  const execution = executions?.findLast((each) => each.command === command)
  if (execution !== undefined) execution.stdin = stdin
}
