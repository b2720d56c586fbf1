// SPDX-License-Identifier: Apache-2.0
// Records of calls in a test's state directory, and the commands that show them.

import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import { type Finished, type Host, trestle } from './host.ts'
import { stateWord } from './state-layout.ts'

/** A line of a record, as far as tests look at it; commands/record/record-schema.ts has the rest. */
export type Line =
  | { readonly type: 'record' }
  | {
      readonly type: 'call'
      readonly verb: string
      readonly env: Readonly<Record<string, string>>
      readonly otherEnv: readonly string[]
    }
  | {
      readonly type: 'exec'
      readonly argv: readonly string[]
      readonly stdin?: string
      readonly exit?: number
      readonly ms?: number
    }
  | { readonly type: 'result'; readonly exit: number }

/** The lines of a record. */
export function linesOf(host: Host, file: string): readonly Line[] {
  const lines = readFileSync(`${host.stateDir}/${file}`, 'utf8').trimEnd().split('\n')
  return lines.map((line) => JSON.parse(line) as Line)
}

/** The line of a type. */
export function lineOf<T extends Line['type']>(lines: readonly Line[], type: T): Extract<Line, { type: T }> {
  const line = lines.find((each): each is Extract<Line, { type: T }> => each.type === type)
  expect(line).toBeDefined()
  return line as Extract<Line, { type: T }>
}

/** Runs a command of trestle on the host. */
export function command(host: Host, ...words: readonly string[]): Finished {
  return host.run('env', [stateWord(host), trestle, ...words])
}
