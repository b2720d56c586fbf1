// SPDX-License-Identifier: Apache-2.0
// A command for people: its arguments, its help and its function.

import { parseArgs } from 'node:util'
import { diagnosis } from '../catalogue/diagnosis.ts'
import { messageWithId, toCniError } from '../cni/errors.ts'
import { PluginError } from './failure.ts'
import { nearestWord } from './nearest-word.ts'
import { type Output, print } from './output.ts'

/** The exit codes of every command, in every output format. */
export const exitCode = { fine: 0, findings: 1, usage: 2, couldNotLook: 3 } as const

/**
 * An option of a command, in the words of node:util parseArgs. `value`: name of its argument in help. `many`: its
 * values may be repeated, and then become lines of one.
 */
export interface Option {
  readonly many?: true
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
  /** After the first word, everything is the command line of another program. */
  readonly startsProgram?: true
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
function readInput(command: Command, args: readonly string[], output: Output): Input {
  const options = optionsOf(command)
  const { values, positionals } = command.startsProgram ? parsedBefore(args, options) : parsed(args, options)
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
  const asked = Object.entries(options).map(([name, { type, short, many = false }]) => {
    return [name, { type, multiple: many, ...(short === undefined ? {} : { short }) }] as const
  })
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: Object.fromEntries(asked),
      allowPositionals: true,
    })
    const single = Object.entries(values).map(([name, value]) => {
      return [name, Array.isArray(value) ? value.join('\n') : value] as const
    })
    return { values: Object.fromEntries(single), positionals }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new UsageError(code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? unknownOption(message, options) : message)
  }
}

/** The arguments up to the first word, and the rest as words: its options are another program's. */
function parsedBefore(args: readonly string[], options: Command['options']) {
  const at = args.findIndex((word) => !word.startsWith('-'))
  if (at < 0) return parsed(args, options)
  const { values, positionals } = parsed(args.slice(0, at), options)
  return { values, positionals: [...positionals, ...args.slice(at)] }
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

// The frame of every command: reads arguments, prints help, and turns an exception into an exit code.

/** Runs a command with the arguments after its name. Returns the exit code; never rejects. */
export async function runCommand(command: Command, words: readonly string[], output: Output): Promise<number> {
  try {
    const input = readInput(command, words, output)
    if (input.values['help'] !== true) return await command.run(input)
    return printHelp(input, commandHelp(command), [command])
  } catch (thrown) {
    return failed(thrown, { command, isJson: !command.startsProgram && isJsonAsked(words), output })
  }
}

/** Prints `text`, or with `-o json` the commands as a document. */
export function printHelp(input: Input, text: string, commands: readonly Command[]): number {
  return print(input, { command: 'help', document: helpDocument(commands), text, code: exitCode.fine })
}

interface About {
  readonly command: Command | undefined
  readonly isJson: boolean
  readonly output: Output
}

/** Prints the error on stderr, and with `-o json` also as the document on stdout. Returns the exit code. */
export function failed(thrown: unknown, { command, isJson, output }: About): number {
  const { exitCode: code, error, more } = thrown instanceof UsageError ? misused(thrown, command) : couldNotLook(thrown)
  if (isJson) print({ isJson, output }, { command: command?.name ?? 'trestle', document: { error }, text: '', code })
  output.err(`trestle: ${error.msg}\n${more}`)
  return code
}

function misused({ message }: UsageError, command: Command | undefined) {
  const words = command === undefined ? 'COMMAND' : `${command.name} ${command.words}`.trimEnd()
  const usage = `usage: trestle ${words} [options]`
  return { exitCode: exitCode.usage, error: { msg: message, details: usage }, more: `${usage}\n` }
}

function couldNotLook(thrown: unknown) {
  const failure = toCniError(thrown)
  const { id, code } = failure
  const details = failure.details ?? (id === 'internal-error' ? undefined : diagnosis(id).cure)
  const error = { code, msg: messageWithId(failure), ...(details === undefined ? {} : { details }) }
  const more = details === undefined ? '' : `  ${details.trimEnd().replaceAll('\n', '\n  ')}\n`
  return { exitCode: thrown instanceof PluginError ? exitCode.findings : exitCode.couldNotLook, error, more }
}

const commonOptions = {
  output: { type: 'string', short: 'o', value: 'FORMAT', help: 'text (default) or json; the exit code is the same' },
  help: { type: 'boolean', short: 'h', help: 'show this help' },
} as const satisfies Record<string, Option>

/** What another program prints has the format of that program. */
export function optionsOf({ options, startsProgram }: Command): Command['options'] {
  return { ...options, ...(startsProgram ? { help: commonOptions.help } : commonOptions) }
}

const exitCodes = `Exit codes: 0 fine, 1 findings, 2 usage, 3 could not look.`

/** Help for all commands: a line each, and examples. */
export function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => usageOf(command).length))
  return [
    'trestle is a CNI plugin: one executable that gives a pod its network.',
    'A container runtime starts trestle with CNI_COMMAND; people start trestle with a command:',
    '',
    ...commands.map((command) => `  trestle ${usageOf(command).padEnd(width)}   ${command.summary}`),
    '',
    'Options of every command, --output of all but exec:',
    ...optionLines(commonOptions),
    '',
    exitCodes,
    '',
    'Examples:',
    ...commands.flatMap(({ examples: [first = ''] }) => (first.split(' ').length > 2 ? [`  ${first}`] : [])),
    '',
  ].join('\n')
}

export function commandHelp(command: Command): string {
  return [
    `usage: trestle ${command.startsProgram ? `${command.name} [options] ${command.words}` : `${usageOf(command)} [options]`}`,
    '',
    command.description,
    '',
    'Options:',
    ...optionLines(optionsOf(command)),
    '',
    exitCodes,
    '',
    'Examples:',
    ...command.examples.map((example) => `  ${example}`),
    '',
  ].join('\n')
}

function usageOf(command: Command): string {
  return `${command.name} ${command.words}`.trimEnd()
}

function optionLines(options: Command['options']): readonly string[] {
  const all = Object.entries(options).map(([name, option]) => ({ left: optionWords(name, option), help: option.help }))
  const width = Math.max(...all.map(({ left }) => left.length))
  return all.map(({ left, help }) => `  ${left.padEnd(width)}  ${help}`)
}

function optionWords(name: string, { short, value }: Option): string {
  return `${short === undefined ? '    ' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`
}

function helpDocument(commands: readonly Command[]) {
  return { commands: commands.map((command) => ({ ...command, run: undefined, options: optionsOf(command) })) }
}
