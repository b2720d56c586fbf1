// SPDX-License-Identifier: Apache-2.0
// The command line for people. A second bundle: nothing of it is loaded when a runtime calls.

import { parseArgs } from 'node:util'
import { toCniError } from '../cni/error.ts'
import { adoptCommand } from './adopt.ts'
import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { convertCommand } from './convert.ts'
import { explainCommand } from './explain.ts'
import { gcCommand } from './gc.ts'
import { commandHelp, commonOptions, overview } from './help.ts'
import { lintCommand } from './lint/command.ts'
import { type Output, standardOutput } from './output.ts'
import { planCommand } from './plan.ts'
import { restoreCommand } from './restore.ts'
import { tryCommand } from './try/command.ts'
import { runInside } from './try/inside.ts'
import { probe } from './try/probe.ts'
import { uninstallCommand } from './uninstall.ts'
import { versionCommand } from './version.ts'

/** Every command, in the order of help. */
export const commands: readonly Command[] = [
  tryCommand,
  lintCommand,
  planCommand,
  convertCommand,
  adoptCommand,
  restoreCommand,
  gcCommand,
  uninstallCommand,
  explainCommand,
  versionCommand,
]

/** What `try` starts inside its namespaces; not for people, so not in help. */
const internal: Readonly<Record<string, (words: readonly string[], output: Output) => Promise<number>>> = {
  '__try-inside': (_, output) => runInside(output),
  __probe: (words, output) => probe(words, output),
}

/** Runs the words after the program's name. Returns the exit code; never rejects. */
export async function main(args: readonly string[]): Promise<number> {
  return await run(args, standardOutput())
}

/** `main` with the place to write to given. */
export async function run(args: readonly string[], output: Output): Promise<number> {
  const [word = 'help', ...rest] = args
  const hidden = internal[word]
  if (hidden !== undefined) return await hidden(rest, output)
  if (word === 'help' || word === '--help' || word === '-h') return help(rest, output)
  const name = word === '--version' || word === '-V' ? 'version' : word
  const command = commands.find((each) => each.name === name)
  if (command === undefined) return unknown(word, output)
  return await runCommand(command, rest, output)
}

function help([name]: readonly string[], output: Output): number {
  const command = commands.find((each) => each.name === name)
  if (name !== undefined && command === undefined) return unknown(name, output)
  output.out(command === undefined ? overview(commands) : commandHelp(command))
  return exitCode.fine
}

function unknown(word: string, output: Output): number {
  const names = commands.map((command) => command.name)
  output.err(
    `trestle: there is no command "${word}"; there are ${names.join(', ')}\nusage: trestle COMMAND [options]\n`,
  )
  return exitCode.usage
}

async function runCommand(command: Command, args: readonly string[], output: Output): Promise<number> {
  let isJson = false
  try {
    const input = readInput(command, args, output)
    if (input.values['help'] === true) {
      output.out(commandHelp(command))
      return exitCode.fine
    }
    isJson = input.isJson
    return await command.run(input)
  } catch (thrown) {
    if (!(thrown instanceof UsageError)) return couldNotLook(thrown, { command, isJson, output })
    output.err(`trestle: ${thrown.message}\nusage: trestle ${`${command.name} ${command.words}`.trimEnd()} [options]\n`)
    return exitCode.usage
  }
}

function readInput(command: Command, args: readonly string[], output: Output): Input {
  const options = { ...command.options, ...commonOptions }
  const { values, positionals } = parsed(args, options)
  const format = values['output'] ?? 'text'
  if (format !== 'text' && format !== 'json') throw new UsageError(`--output ${format}: use text or json`)
  const surplus = positionals[command.maxWords]
  if (surplus !== undefined) throw new UsageError(`"${surplus}" is one word too many`)
  return { words: positionals, values, isJson: format === 'json', output }
}

function parsed(args: readonly string[], options: Command['options']) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function couldNotLook(thrown: unknown, about: { command: Command; isJson: boolean; output: Output }): number {
  const { command, isJson, output } = about
  const { code, message, details } = toCniError(thrown)
  const error = { code, msg: message, ...(details === undefined ? {} : { details }) }
  const document = { formatVersion: 1, command: command.name, error, exitCode: exitCode.couldNotLook }
  if (isJson) output.out(`${JSON.stringify(document, undefined, 2)}\n`)
  const more = details === undefined ? '' : `  ${details.replaceAll('\n', '\n  ')}\n`
  output.err(`trestle: ${message}\n${more}`)
  return exitCode.couldNotLook
}
