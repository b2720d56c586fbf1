// SPDX-License-Identifier: Apache-2.0
// What a command for people is: its words, its help and what it runs. The frame (main.ts) reads the
// arguments, prints help and turns what is thrown into an exit code.

import type { Output } from './output.ts'

/** The exit codes of every command, in every output format (docs/design.md, "Commands for people"). */
export const exitCode = { fine: 0, findings: 1, usage: 2, couldNotLook: 3 } as const

/** An option of a command, in the words of node:util parseArgs. `value`: what help shows for its argument. */
export interface Option {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  readonly value?: string
  readonly help: string
}

/** A command's arguments, read. `isJson`: `-o json` was given. */
export interface Input {
  readonly words: readonly string[]
  readonly values: Readonly<Record<string, string | boolean | undefined>>
  readonly isJson: boolean
  readonly output: Output
}

export interface Command {
  readonly name: string
  /** What follows the name in the usage line, like `[FILE]`. */
  readonly words: string
  readonly maxWords: number
  /** One line, a verb first. */
  readonly summary: string
  /** Paragraphs of help below the usage line. */
  readonly description: string
  readonly options: Readonly<Record<string, Option>>
  readonly examples: readonly string[]
  /** Returns the exit code. Throws UsageError for bad arguments, CniError when it could not look. */
  readonly run: (input: Input) => Promise<number> | number
}

/** Arguments that make no sense: exit code 2, with the command's usage line. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'UsageError'
  }
}
