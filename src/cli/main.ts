// SPDX-License-Identifier: Apache-2.0
// The command line for people. A second bundle: nothing of it is loaded when a runtime calls.

import { messageWithId, toCniError } from '../cni/model/error.ts'
import { removeCallFiles } from '../system/process/call-file.ts'
import { adoptCommand } from './adopt/adopt.ts'
import { agentCommand } from './agent/command.ts'
import { convertCommand } from './convert/convert.ts'
import { doctorCommand } from './doctor/command.ts'
import { probeEnd } from './doctor/probe/ends.ts'
import { runProber } from './doctor/probe/prober.ts'
import { explainCommand } from './explain/explain.ts'
import { gcCommand } from './gc/gc.ts'
import { lintCommand } from './lint/command.ts'
import { nearestWord } from './lint/json/nearest-word.ts'
import { planCommand } from './plan/plan.ts'
import { restoreCommand } from './restore/restore.ts'
import { isJsonAsked, readInput } from './shell/arguments.ts'
import { type Command, exitCode, type Input, UsageError } from './shell/command.ts'
import { commandHelp, helpDocument, overview } from './shell/help.ts'
import { type Output, standardOutput } from './shell/output.ts'
import { tryCommand } from './try/command.ts'
import { runInside } from './try/inside.ts'
import { probe } from './try/probe.ts'
import { uninstallCommand } from './uninstall/uninstall.ts'
import { versionCommand } from './version/version.ts'

/** Every command, in the order of help. */
export const commands: readonly Command[] = [
  tryCommand,
  lintCommand,
  doctorCommand,
  planCommand,
  convertCommand,
  adoptCommand,
  restoreCommand,
  gcCommand,
  agentCommand,
  uninstallCommand,
  explainCommand,
  versionCommand,
]

/** What `try` and `doctor --probe` start, as a rule inside of namespaces; not for people, so not in help. */
const internal: Readonly<Record<string, (words: readonly string[], output: Output) => Promise<number>>> = {
  '__try-inside': (_, output) => runInside(output),
  __probe: (words, output) => probe(words, output),
  '__probe-pods': (_, output) => runProber(output),
  '__probe-end': (words, output) => probeEnd(words, output),
}

/** Runs the words after the program's name. Returns the exit code; never rejects. */
export async function main(args: readonly string[]): Promise<number> {
  try {
    return await run(args, standardOutput())
  } finally {
    removeCallFiles()
  }
}

/** `main` with the place to write to given. */
export async function run(args: readonly string[], output: Output): Promise<number> {
  const [word = 'help', ...rest] = args
  const hidden = internal[word]
  if (hidden !== undefined) return await hidden(rest, output)
  const name = aliases[word] ?? word
  const command = [...commands, helpCommand].find((each) => each.name === name)
  try {
    if (command === undefined) throw unknown(word)
    const input = readInput(command, rest, output)
    return input.values['help'] === true ? printHelp(command, input) : await command.run(input)
  } catch (thrown) {
    return failed(thrown, { command, isJson: isJsonAsked(args), output })
  }
}

const aliases: Readonly<Record<string, string>> = {
  '--help': 'help',
  '-h': 'help',
  '--version': 'version',
  '-V': 'version',
}

/** Not in the list of commands that it prints. */
const helpCommand: Command = {
  name: 'help',
  words: '[COMMAND]',
  maxWords: 1,
  summary: 'print all commands, or the help of one',
  description: 'Prints all commands, or the help of one.',
  options: {},
  examples: ['trestle help', 'trestle help gc'],
  run: (input) => {
    const [name] = input.words
    const command = commands.find((each) => each.name === name)
    if (name !== undefined && command === undefined) throw unknown(name)
    return printHelp(command, input)
  },
}

/** Prints the help of a command, or of all. */
function printHelp(command: Command | undefined, { isJson, output }: Input): number {
  const text = command === undefined ? overview(commands) : commandHelp(command)
  const document = helpDocument(command === undefined ? commands : [command])
  output.out(isJson ? `${JSON.stringify(document, undefined, 2)}\n` : text)
  return exitCode.fine
}

function unknown(word: string): UsageError {
  if (word.startsWith('-')) return new UsageError(`"${word}" is no command: the command comes first, then its options`)
  const names = commands.map((command) => command.name)
  const meant = nearestWord(word, names)
  const hint = meant === undefined ? `there are ${names.join(', ')}` : `did you mean "${meant}"?`
  return new UsageError(`there is no command "${word}"; ${hint}`)
}

interface About {
  readonly command: Command | undefined
  readonly isJson: boolean
  readonly output: Output
}

/** What went wrong, for people on stderr, and with `-o json` as the one document on stdout. Returns the exit code. */
function failed(thrown: unknown, { command, isJson, output }: About): number {
  const { exitCode: code, error, more } = thrown instanceof UsageError ? misused(thrown, command) : couldNotLook(thrown)
  const document = { formatVersion: 1, command: command?.name ?? 'trestle', error, exitCode: code }
  if (isJson) output.out(`${JSON.stringify(document, undefined, 2)}\n`)
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
  const { code, details } = failure
  const error = { code, msg: messageWithId(failure), ...(details === undefined ? {} : { details }) }
  const more = details === undefined ? '' : `  ${details.trimEnd().replaceAll('\n', '\n  ')}\n`
  return { exitCode: exitCode.couldNotLook, error, more }
}
