// SPDX-License-Identifier: Apache-2.0
// `trestle explain`: an error code in words.

import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { type ErrorCode, errorCodes } from './error-codes.ts'

export const explainCommand: Command = {
  name: 'explain',
  words: '[CODE]',
  maxWords: 1,
  summary: 'tell what an error code means, why it comes and what to do',
  description: 'Explains the "code" of a CNI error. Without CODE: all of them. An unknown code: exit code 1.',
  options: {},
  examples: ['trestle explain 101', 'trestle explain'],
  run,
}

function run({ words, isJson, output }: Input): number {
  const [word] = words
  if (word !== undefined && !/^\d{1,6}$/.test(word)) throw new UsageError(`"${word}" is no error code: use a number`)
  const found = errorCodes.filter(({ code }) => word === undefined || code === Number(word))
  const code = found.length > 0 ? exitCode.fine : exitCode.findings
  if (isJson) {
    const document = { formatVersion: 1, command: 'explain', codes: found, exitCode: code }
    output.out(`${JSON.stringify(document, undefined, 2)}\n`)
  } else if (word === undefined) output.out(found.map(line).join(''))
  else
    output.out(found.map(paragraph).join('') || `${word} is none of trestle's codes; a delegated plugin may use it\n`)
  return code
}

function line({ code, meaning }: ErrorCode): string {
  return `${`${code}`.padStart(4)}  ${meaning}\n`
}

function paragraph({ code, source, meaning, cause, cure }: ErrorCode): string {
  const from = source === 'CNI' ? 'of the CNI specification' : 'of trestle'
  return `${code}: ${meaning} (code ${from})\n  cause: ${cause}\n  what to do: ${cure}\n`
}
