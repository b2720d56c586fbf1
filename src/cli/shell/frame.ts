// SPDX-License-Identifier: Apache-2.0
// What every command runs in: its arguments are read, its help is printed, and what is thrown becomes an exit code.

import { messageWithId, toCniError } from '../../cni/model/error.ts'
import { isJsonAsked, readInput } from './arguments.ts'
import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { commandHelp, helpDocument } from './help.ts'
import type { Output } from './output.ts'

/** Runs a command with the words after its name. Returns the exit code; never rejects. */
export async function runCommand(command: Command, words: readonly string[], output: Output): Promise<number> {
  try {
    const input = readInput(command, words, output)
    if (input.values['help'] !== true) return await command.run(input)
    return printHelp(input, commandHelp(command), [command])
  } catch (thrown) {
    return failed(thrown, { command, isJson: isJsonAsked(words), output })
  }
}

/** Prints help: `text`, or the commands as a document. */
export function printHelp({ isJson, output }: Input, text: string, commands: readonly Command[]): number {
  output.out(isJson ? `${JSON.stringify(helpDocument(commands), undefined, 2)}\n` : text)
  return exitCode.fine
}

/** Whose failure it is, and where to tell of it. */
export interface About {
  readonly command: Command | undefined
  readonly isJson: boolean
  readonly output: Output
}

/** What went wrong, for people on stderr, and with `-o json` as the one document on stdout. Returns the exit code. */
export function failed(thrown: unknown, { command, isJson, output }: About): number {
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
