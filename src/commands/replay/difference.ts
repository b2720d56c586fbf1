// SPDX-License-Identifier: Apache-2.0
// What differs between two runs of a call, as lines: `-` of the first alone, `+` of the second alone.

import { parseObject } from '../../cni/json.ts'
import type { ExecLine } from '../record/record-schema.ts'
import { errorIdOf } from '../record/record-text.ts'

/** A run, recorded or replayed. Absent parts are not compared. */
export interface Compared {
  readonly exit: number
  readonly stdout: string
  readonly executions?: readonly ExecLine[]
  readonly kernel?: Readonly<Record<string, readonly string[]>>
}

/** A part that was compared; without lines both are the same. */
export interface Part {
  readonly title: string
  readonly lines: readonly string[]
}

/** `comparedBy`: the part of a line that is compared. */
export function differences(a: Compared, b: Compared, comparedBy: (line: string) => string): readonly Part[] {
  const difference = (x: readonly string[], y: readonly string[]) => lineDifference(x, y, comparedBy)
  const [code, id] = [codeOf, idOf].map((read) => lineDifference([read(a)], [read(b)]))
  const kernel = Object.keys(a.kernel ?? {}).filter((title) => b.kernel?.[title] !== undefined)
  return [
    { title: 'exit status', lines: lineDifference([`${a.exit}`], [`${b.exit}`]) },
    { title: 'error code', lines: code ?? [] },
    { title: 'error id', lines: id ?? [] },
    { title: 'answer', lines: difference(answerLines(a.stdout), answerLines(b.stdout)) },
    ...(a.executions === undefined || b.executions === undefined
      ? []
      : [{ title: 'commands', lines: difference(commandLines(a.executions), commandLines(b.executions)) }]),
    ...kernel.map((title) => ({ title, lines: difference(a.kernel?.[title] ?? [], b.kernel?.[title] ?? []) })),
  ]
}

function codeOf({ exit, stdout }: Compared): string {
  return exit === 0 ? 'none' : `${errorOf(stdout).code ?? 'none'}`
}

function idOf({ exit, stdout }: Compared): string {
  return exit === 0 ? 'none' : (errorIdOf(errorOf(stdout).msg) ?? 'none')
}

/** The code and the message of an error document. */
function errorOf(stdout: string): { readonly code?: number; readonly msg?: string } {
  const { code, msg } = parseObject(stdout) ?? {}
  return {
    ...(Number.isInteger(code) ? { code: code as number } : {}),
    ...(typeof msg === 'string' ? { msg } : {}),
  }
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
    const input = stdin.split('\n').filter((line) => line.trim() !== '')
    const words = argv.join(' ').replaceAll(/\/proc\/\d+\/fd\/\d+/g, 'FD')
    const title = exit === undefined || exit === 0 ? words : `${words} (exit ${exit})`
    return [title, ...input.map((line) => `  ${line}`)]
  })
}

/** MACs and names of veths that another plugin makes up anew in each run, and not those that its `input` has. */
export function withoutMadeUp(input: string): (line: string) => string {
  const known = input.toLowerCase()
  const madeUp = /\b(?:veth[\da-f]+|(?:[\da-f]{2}:){5}[\da-f]{2})\b/gi
  return (line) => line.replace(madeUp, (word) => (known.includes(word.toLowerCase()) ? word : 'MADE-UP'))
}

/** The longest common subsequence decides; both are some hundred lines at most. */
export function lineDifference(
  a: readonly string[],
  b: readonly string[],
  comparedBy = (line: string) => line,
): readonly string[] {
  const [x, y] = [a.slice(0, mostLines), b.slice(0, mostLines)]
  const [keysX, keysY] = [x.map(comparedBy), y.map(comparedBy)]
  const length = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1))
  const at = (i: number, j: number) => length[i]?.[j] ?? 0
  for (let i = x.length - 1; i >= 0; i--)
    for (let j = y.length - 1; j >= 0; j--)
      (length[i] as Uint16Array)[j] =
        keysX[i] === keysY[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
  const lines: string[] = []
  for (let i = 0, j = 0; i < x.length || j < y.length; ) {
    if (i < x.length && j < y.length && keysX[i] === keysY[j]) [i, j] = [i + 1, j + 1]
    else if (j >= y.length || (i < x.length && at(i + 1, j) >= at(i, j + 1))) lines.push(`- ${x[i++]}`)
    else lines.push(`+ ${y[j++]}`)
  }
  return lines
}

const mostLines = 2000
