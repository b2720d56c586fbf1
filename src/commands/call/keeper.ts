// SPDX-License-Identifier: Apache-2.0
// What a call hands to its recorder, a bundle of its own (cli/record/recorder.ts): a call that fails is kept, and every
// call where a person or the configuration asks for a record or a log. A call that succeeds and is not asked about
// looks for one file and loads nothing.

import { existsSync } from 'node:fs'
import type { Environment } from '../../cni/invocation.ts'
import { stateRoot } from '../../system/files/state.ts'
import { nowMs } from '../../system/process/clock.ts'
import { loadBundle } from '../../system/process/executable.ts'
import { type Execution, notedExecutions, noteExecutions } from '../../system/process/executions.ts'
import type { DispatchOutput } from './dispatch.ts'

/** A call as far as its process knows it. `ms`: since the process began. */
export interface SeenCall {
  readonly stdin?: string
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  readonly ms: number
  readonly executions: readonly Execution[]
}

/** What every part of the recorder knows of its call. `isSwitched`: the file of `trestle record on` or `log on` is there. */
export interface RecordedProcess {
  readonly env: Environment
  readonly stateRoot: string
  readonly isSwitched: boolean
}

export interface Recorder {
  /** Before the verb. A promise: the answer of another plugin, or a given one, in place of the verb's. */
  readonly begin: (stdin: string) => Promise<DispatchOutput> | undefined
  readonly end: (call: SeenCall) => void
}

type OpenRecorder = (about: RecordedProcess) => Recorder

/** Written by `trestle record` and `trestle log` (cli/record/settings.ts). */
export function switchFile(root = stateRoot()): string {
  return `${root}/recording.json`
}

/** The key of a configuration, whatever its case (cni/json.ts). */
const askedFor = /"(?:record|log)"/i

/** More of standard error is not kept. */
const mostStderr = 64 * 1024

/** Keeps a call where something asks for that. No function of it throws: no verdict depends on what is kept. */
export function openKeeper(env: Environment) {
  noteExecutions()
  const isSwitched = existsSync(switchFile())
  let [stdin, stderr]: [string | undefined, string] = [undefined, '']
  let recorder: Recorder | undefined
  const open = () => {
    recorder ??= loadBundle<OpenRecorder>('recorder.cjs')({ env, stateRoot: stateRoot(), isSwitched })
    return recorder
  }
  return {
    onStdin: (text: string) => {
      stdin = text
      return isSwitched || askedFor.test(text) ? unlessItFails(() => open().begin(text)) : undefined
    },
    onStderr: (text: string) => {
      if (stderr.length < mostStderr) stderr += text
    },
    end: ({ stdout, exitCode }: DispatchOutput) => {
      const executions = notedExecutions()
      if (exitCode === 0 && recorder === undefined) return
      const seen = { stdout, stderr, exitCode, ms: nowMs(), executions }
      unlessItFails(() => open().end(stdin === undefined ? seen : { ...seen, stdin }))
    },
  }
}

/** Nobody's network depends on a record: a full or read-only disk, or a file in a directory's place, ends it alone. */
function unlessItFails<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}
