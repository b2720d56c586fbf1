// SPDX-License-Identifier: Apache-2.0
// What a command for people is: its words, its help and what it runs. The frame (main.ts) reads the
// arguments, prints help and turns what is thrown into an exit code.

import { parseArgs } from 'node:util'
import { commonOptions } from './frame.ts'
import { nearestWord } from './nearest-word.ts'
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

/** The arguments of a command. Throws UsageError for options and words that it has not. */
export function readInput(command: Command, args: readonly string[], output: Output): Input {
  const options = { ...command.options, ...commonOptions }
  const { values, positionals } = parsed(args, options)
  const format = values['output'] ?? 'text'
  if (format !== 'text' && format !== 'json') throw new UsageError(`--output ${format}: use text or json`)
  const surplus = positionals[command.maxWords]
  if (surplus !== undefined) throw new UsageError(`"${surplus}" is one word too many`)
  return { words: positionals, values, isJson: format === 'json', output }
}

/** Whether JSON is asked for, also where the rest of the words makes no sense. */
export function isJsonAsked(args: readonly string[]): boolean {
  return args.some((word, at) => {
    if (word === '-o' || word === '--output') return args[at + 1] === 'json'
    return word === '-ojson' || word === '--output=json'
  })
}

function parsed(args: readonly string[], options: Command['options']) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new UsageError(code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? unknownOption(message, options) : message)
  }
}

/** Node names the option between its first two quotes. */
function unknownOption(message: string, options: Command['options']): string {
  const given = message.split("'")[1] ?? ''
  const names = Object.keys(options).map((name) => `--${name}`)
  const meant = given.startsWith('--') ? nearestWord(given, names) : undefined
  return (
    `there is no option "${given}"; ` +
    `${meant === undefined ? `there are ${names.join(', ')}` : `did you mean ${meant}?`}`
  )
}
