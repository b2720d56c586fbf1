// SPDX-License-Identifier: Apache-2.0
// What is kept of a call: of each that fails, and of every call where `trestle record` or the configuration asks for it.
// Nothing that a call answers depends on what is kept; a call that succeeds and is not asked about looks for one file.

import { existsSync } from 'node:fs'
import type { Environment } from '../cni/call.ts'
import type { CallOutput } from '../cni/dispatch.ts'
import { nowMs } from '../process/clock.ts'
import { loadBundle } from '../process/executable.ts'
import type { Command, Output, Run } from '../process/runner.ts'
import { stateRoot } from '../state/layout.ts'

/** The bundle that decides what is kept, and writes it down (keep-call.ts). */
export interface Keeper {
  /** The answer of `record.wrap` or `record.answer`, where the configuration has one. */
  answer(call: SeenCall): Promise<CallOutput | undefined>
  keep(call: SeenCall): void
}

/** A call as it was seen. */
export interface SeenCall {
  readonly env: Environment
  /** Since 1970: the record's id is made of it. */
  readonly startedMs: number
  stdin: string | undefined
  stderr: string
  stdout: string
  exitCode: number
  readonly executions: Execution[]
}

/** A process of a call. Times in milliseconds since the call began. */
export interface Execution {
  readonly command: Command
  readonly startMs: number
  stdin?: string
  ms?: number
  output?: Output
  failure?: string
}

export interface Recorder {
  /** Sees every process. */
  readonly wrapRun: (run: Run) => Run
  /** Sees standard input. A promise: the answer in place of the verb's. */
  readonly onStdin: (stdin: string) => Promise<CallOutput | undefined> | undefined
  readonly onStderr: (text: string) => void
  /** After the answer. */
  readonly end: (stdout: string, exitCode: number) => void
}

/** `trestle record` writes it, and removes it again. */
export function switchFile(): string {
  return `${stateRoot()}/recording.json`
}

export function openRecorder(env: Environment): Recorder {
  const startedMs = Date.now() - nowMs()
  const seen: SeenCall = { env, startedMs, stdin: undefined, stderr: '', stdout: '', exitCode: 0, executions: [] }
  let loaded: Keeper | undefined
  const keeper = () => (loaded ??= loadBundle<Keeper>('record.cjs'))
  let mayBeAsked = false
  return {
    wrapRun: (run) => (command) => observed(run, command, seen.executions),
    onStdin: (stdin) => {
      seen.stdin = stdin
      mayBeAsked = existsSync(switchFile()) || /"record"/i.test(stdin)
      return mayBeAsked ? keeper().answer(seen) : undefined
    },
    onStderr: (text) => {
      if (seen.stderr.length < 64 * 1024) seen.stderr += text
    },
    end: (stdout, exitCode) => {
      if (exitCode !== 0 || mayBeAsked) keeper().keep(Object.assign(seen, { stdout, exitCode }))
    },
  }
}

/** The same run, written down with its input and output: references only, nothing is copied. */
function observed(run: Run, command: Command, executions: Execution[]): Promise<Output> {
  const execution: Execution = { command, startMs: nowMs() }
  executions.push(execution)
  const { stdin } = command
  const noteInput = (give: (text: string) => void) => (text: string) => {
    execution.stdin = text
    give(text)
  }
  const output = run(typeof stdin === 'function' ? { ...command, stdin: (give) => stdin(noteInput(give)) } : command)
  const ended = (more: Partial<Execution>) => Object.assign(execution, { ms: nowMs() - execution.startMs, ...more })
  output.then(
    (result) => ended({ output: result }),
    (error: Error) => ended({ failure: error.message }),
  )
  return output
}
