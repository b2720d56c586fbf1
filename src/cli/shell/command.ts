// SPDX-License-Identifier: Apache-2.0
// A command for people: its arguments, its help and its function. frame.ts reads the arguments, prints help and turns
// an exception into an exit code.

import { parseArgs } from 'node:util'
import { commonOptions } from './frame.ts'
import { nearestWord } from './nearest-word.ts'
import type { Output } from './output.ts'

/** The exit codes of every command, in every output format (docs/design.md, "Commands for people"). */
export const exitCode = { fine: 0, findings: 1, usage: 2, couldNotLook: 3 } as const

/** An option of a command, in the words of node:util parseArgs. `value`: name of its argument in help. */
export interface Option {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  readonly value?: string
  readonly help: string
}

/** The arguments of a command. `isJson`: with `-o json`. */
export interface Input {
  readonly words: readonly string[]
  readonly values: Readonly<Record<string, string | boolean | undefined>>
  readonly isJson: boolean
  readonly output: Output
}

export interface Command {
  readonly name: string
  /** The arguments in the usage line, like `[FILE]`. */
  readonly words: string
  readonly maxWords: number
  /** One line that begins with a verb. */
  readonly summary: string
  /** Paragraphs of help below the usage line. */
  readonly description: string
  readonly options: Readonly<Record<string, Option>>
  readonly examples: readonly string[]
  /** Returns the exit code. Throws UsageError for invalid arguments, CniError when the command could not look. */
  readonly run: (input: Input) => Promise<number> | number
}

/** Invalid arguments: exit code 2, with the command's usage line. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'UsageError'
  }
}

/** The arguments of a command. Throws UsageError for unknown options and surplus words. */
export function readInput(command: Command, args: readonly string[], output: Output): Input {
  const options = { ...command.options, ...commonOptions }
  const { values, positionals } = parsed(args, options)
  const format = values['output'] ?? 'text'
  if (format !== 'text' && format !== 'json') throw new UsageError(`--output ${format}: use text or json`)
  const surplus = positionals[command.maxWords]
  if (surplus !== undefined) throw new UsageError(`unexpected argument "${surplus}"`)
  return { words: positionals, values, isJson: format === 'json', output }
}

/** True with `-o json`, also among invalid arguments. */
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

/** The error for an unknown option, which Node's message has between its first two quotes. */
function unknownOption(message: string, options: Command['options']): string {
  const given = message.split("'")[1] ?? ''
  const names = Object.keys(options).map((name) => `--${name}`)
  const meant = given.startsWith('--') ? nearestWord(given, names) : undefined
  return (
    `there is no option "${given}"; ` +
    `${meant === undefined ? `options are ${names.join(', ')}` : `did you mean ${meant}?`}`
  )
}
