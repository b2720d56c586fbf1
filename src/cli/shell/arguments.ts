// SPDX-License-Identifier: Apache-2.0
// The words of a command line as a command's input, and what is wrong with them in words of our own.

import { parseArgs } from 'node:util'
import { nearestWord } from '../lint/json/nearest-word.ts'
import { type Command, type Input, UsageError } from './command.ts'
import { commonOptions } from './help.ts'
import type { Output } from './output.ts'

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
