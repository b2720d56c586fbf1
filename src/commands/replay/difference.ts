// SPDX-License-Identifier: Apache-2.0
// What differs between two runs of a call, as lines: `-` of the first alone, `+` of the second alone.

import { parseObject } from '../../cni/json.ts'
import type { ExecLine } from '../record/record-schema.ts'
import { errorIdOf } from '../record/record-text.ts'

/** A run, recorded or replayed. Commands are compared where both have them. */
export interface Run {
  readonly exit: number
  readonly stdout: string
  readonly executions?: readonly ExecLine[]
}

/** A part that was compared; without lines both are the same. */
interface Part {
  readonly title: string
  readonly lines: readonly string[]
}

/** `isOfAnother`: the plugin makes up MACs and names of veths in each run. */
export function differencesOf(a: Run, b: Run, isOfAnother = false): readonly Part[] {
  const madeUp = /\b(?:veth[\da-f]+|(?:[\da-f]{2}:){5}[\da-f]{2})\b/gi
  const plain = (line: string) => (isOfAnother ? line.replace(madeUp, 'MADE-UP') : line)
  const compare = (title: string, read: (run: Run) => readonly string[]): Part => {
    const [x, y] = [a, b].map((run) => read(run).map((line) => ({ line, key: plain(line) })))
    return { title, lines: lineDifference(x ?? [], y ?? []) }
  }
  const parts = [
    compare('exit status', ({ exit }) => [`${exit}`]),
    compare('error code', ({ exit, stdout }) => [exit === 0 ? 'none' : `${parseObject(stdout)?.['code'] ?? 'none'}`]),
    compare('error id', ({ exit, stdout }) => [exit === 0 ? 'none' : (errorIdOf(messageIn(stdout)) ?? 'none')]),
    compare('answer', ({ stdout }) => answerLines(stdout)),
  ]
  const haveCommands = a.executions !== undefined && b.executions !== undefined
  return haveCommands ? [...parts, compare('commands', ({ executions = [] }) => commandLines(executions))] : parts
}

function messageIn(stdout: string): string | undefined {
  const msg = parseObject(stdout)?.['msg']
  return typeof msg === 'string' ? msg : undefined
}

/** A document line by line, else the text. A time in an error is that of the run. */
function answerLines(stdout: string): readonly string[] {
  const document = parseObject(stdout)
  const text = document === undefined ? stdout : JSON.stringify(document, undefined, 1)
  return text
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .split('\n')
    .filter((line) => line !== '')
}

/** A command line, and its input below it. Descriptors and scripts with process ids differ from run to run. */
function commandLines(executions: readonly Pick<ExecLine, 'argv' | 'stdin' | 'exit'>[]): readonly string[] {
  return executions.flatMap(({ argv, stdin = '', exit }) => {
    const words = argv.join(' ').replaceAll(/\/proc\/\d+\/fd\/\d+/g, 'FD')
    const title = exit === undefined || exit === 0 ? words : `${words} (exit ${exit})`
    return [
      title,
      ...stdin
        .split('\n')
        .filter((line) => line.trim() !== '')
        .map((line) => `  ${line}`),
    ]
  })
}

interface Keyed {
  readonly line: string
  readonly key: string
}

/** Lines that only one of both has, as often as it has them. Tools run side by side: their order says nothing. */
function lineDifference(a: readonly Keyed[], b: readonly Keyed[]): readonly string[] {
  const left = [...b]
  const missing: string[] = []
  for (const { line, key } of a) {
    const at = left.findIndex((each) => each.key === key)
    if (at < 0) missing.push(`- ${line}`)
    else left.splice(at, 1)
  }
  return [...missing, ...left.map(({ line }) => `+ ${line}`)]
}
