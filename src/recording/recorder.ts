// SPDX-License-Identifier: Apache-2.0
// What is kept of a call: of each that fails, and of every call where `trestle record` or the configuration asks for it.
// Nothing that a call answers depends on what is kept; a call that succeeds and is not asked about looks for one file.

import { existsSync } from 'node:fs'
import type { Environment } from '../cni/call.ts'
import type { CallOutput } from '../cni/dispatch.ts'
import { isObject, type JsonObject, lookUp, parseObject } from '../cni/json.ts'
import { nowMs } from '../process/clock.ts'
import { loadBundle, ownTypes } from '../process/executable.ts'
import type { Command, Output, Run } from '../process/runner.ts'
import { readableText } from '../state/files.ts'
import { stateRoot } from '../state/layout.ts'

/** The bundle that writes a call down (commands/record/keep-call.ts). */
export interface Keeper {
  keep(ring: 'records' | 'failures', call: SeenCall, calls?: number): void
  /** The answer of `record.wrap` or `record.answer`. `note` gets the process. */
  answer(
    asked: Settings,
    env: Environment,
    stdin: string,
    note: (execution: Execution) => void,
  ): Promise<CallOutput | undefined>
}

/** Calls of a verb that are kept where nothing says how many. */
const usualKeep = 100

export interface Recorder {
  /** Sees every process. */
  readonly wrapRun: (run: Run) => Run
  /** Sees standard input. A promise: the answer of `record.wrap` or `record.answer` in place of the verb's. */
  readonly onStdin: (stdin: string) => Promise<CallOutput | undefined> | undefined
  readonly onStderr: (text: string) => void
  /** After the answer. */
  readonly end: (stdout: string, exitCode: number) => void
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

/** `record: true`, a number of calls, or `{keep, wrap, answer}`; `trestle record` writes the switch file. */
export interface Settings {
  readonly keep?: number
  /** A network's name, or a pod's as NAME or NAMESPACE/NAME. */
  readonly only?: string
  readonly wrap?: string
  readonly answer?: JsonObject
}

export function openRecorder(env: Environment): Recorder {
  const root = stateRoot()
  const switchFile = `${root}/recording.json`
  const isSwitched = existsSync(switchFile)
  const executions: Execution[] = []
  const seen = { stdin: undefined as string | undefined, stderr: '' }
  let asked: Settings | undefined
  return {
    wrapRun: (run) => (command) => observed(run, command, executions),
    onStdin: (stdin) => {
      seen.stdin = stdin
      if (!isSwitched && !/"record"/i.test(stdin)) return undefined
      const conf = parseObject(stdin) ?? {}
      asked = {
        ...settingsOf(lookUp(conf, 'record')),
        ...(isSwitched ? settingsOf(parseObject(readableText(switchFile) ?? '')?.['record']) : undefined),
      }
      if (Object.keys(asked).length === 0 && !isSwitched && !isOn(lookUp(conf, 'record'))) asked = undefined
      const isOwn = ownTypes().includes(conf['type'] as string)
      if (!isOwn || (asked?.wrap === undefined && asked?.answer === undefined)) return undefined
      return loadBundle<Keeper>('record.cjs').answer(asked, env, stdin, (execution) => executions.push(execution))
    },
    onStderr: (text) => {
      if (seen.stderr.length < 64 * 1024) seen.stderr += text
    },
    end: (stdout, exitCode) => {
      if (exitCode === 0 && asked === undefined) return
      const call = { ...seen, startedMs: Date.now() - nowMs(), stdout, exitCode, env, executions }
      const isFailure = exitCode !== 0 && !existsSync(`${root}/failures.off`)
      const isAsked = asked !== undefined && isMeant(asked, env, seen.stdin)
      if (!isFailure && !isAsked) return
      const { keep } = loadBundle<Keeper>('record.cjs')
      if (isFailure) keep('failures', call)
      if (isAsked) keep('records', call, asked?.keep ?? usualKeep)
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

function isOn(value: unknown): boolean {
  return value === true || isObject(value) || (typeof value === 'number' && value > 0)
}

function settingsOf(value: unknown): Settings {
  if (!isOn(value)) return {}
  const fields: JsonObject = isObject(value) ? value : {}
  const keep = typeof value === 'number' ? value : fields['keep']
  const { only, wrap, answer } = fields
  return {
    ...(typeof keep === 'number' && keep > 0 ? { keep } : {}),
    ...(typeof only === 'string' ? { only } : {}),
    ...(typeof wrap === 'string' ? { wrap } : {}),
    ...(isObject(answer) ? { answer } : {}),
  }
}

function isMeant({ only }: Settings, env: Environment, stdin = ''): boolean {
  const { network, pod } = subjectOf(env, parseObject(stdin) ?? {})
  return only === undefined || [network, pod?.name, pod && `${pod.namespace}/${pod.name}`].includes(only)
}

export function subjectOf(env: Environment, conf: JsonObject) {
  const args = new Map((env['CNI_ARGS'] ?? '').split(';').map((pair) => pair.split('=', 2) as [string, string]))
  const [namespace, name, uid] = ['NAMESPACE', 'NAME', 'UID'].map((word) => args.get(`K8S_POD_${word}`))
  return {
    verb: env['CNI_COMMAND'] ?? '',
    ...(typeof conf['name'] === 'string' ? { network: conf['name'] } : {}),
    containerId: env['CNI_CONTAINERID'] ?? '',
    ifName: env['CNI_IFNAME'] ?? '',
    netns: env['CNI_NETNS'] ?? '',
    ...(name ? { pod: { namespace: namespace ?? '', name, ...(uid ? { uid } : {}) } } : {}),
  }
}

/** A call as it was seen. */
export interface SeenCall {
  /** Since 1970: the record's id is made of it. */
  readonly startedMs: number
  readonly stdin: string | undefined
  readonly stderr: string
  readonly stdout: string
  readonly exitCode: number
  readonly env: Environment
  readonly executions: readonly Execution[]
}
