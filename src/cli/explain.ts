// SPDX-License-Identifier: Apache-2.0
// `trestle explain`: an error code, or the id of a check, in words.

import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { type ErrorCode, errorCodes } from './error-codes.ts'
import { type Check, checks, isCheckId } from './lint/checks.ts'
import { nearestWord } from './lint/nearest-word.ts'

export const explainCommand: Command = {
  name: 'explain',
  words: '[CODE or ID]',
  maxWords: 1,
  summary: 'tell what an error code or a finding means, why it comes and what to do',
  description: [
    'Explains the "code" of a CNI error, or the id of a finding of `trestle lint`. Without CODE: all codes.',
    'An unknown code: exit code 1.',
  ].join('\n'),
  options: {},
  examples: ['trestle explain 101', 'trestle explain json-syntax', 'trestle explain'],
  run,
}

function run({ words, isJson, output }: Input): number {
  const [word] = words
  if (word !== undefined && isCheckId(word)) return explainCheck(word, checks[word], { isJson, output })
  if (word !== undefined && !/^\d{1,6}$/.test(word)) throw unknown(word)
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

function unknown(word: string): UsageError {
  const meant = nearestWord(word, Object.keys(checks))
  const hint = meant === undefined ? 'use a number, or an id that `trestle lint` prints' : `did you mean "${meant}"?`
  return new UsageError(`"${word}" is no error code and no id of a finding: ${hint}`)
}

function explainCheck(id: string, check: Check, { isJson, output }: Pick<Input, 'isJson' | 'output'>): number {
  const { severity, meaning, cause, cure } = check
  const document = { formatVersion: 1, command: 'explain', checks: [{ id, ...check }], exitCode: exitCode.fine }
  const text = `${id}: ${meaning} (${severity}, trestle lint)\n  cause: ${cause}\n  what to do: ${cure}\n`
  output.out(isJson ? `${JSON.stringify(document, undefined, 2)}\n` : text)
  return exitCode.fine
}

function line({ code, meaning }: ErrorCode): string {
  return `${`${code}`.padStart(4)}  ${meaning}\n`
}

function paragraph({ code, source, meaning, cause, cure }: ErrorCode): string {
  const from = source === 'CNI' ? 'of the CNI specification' : 'of trestle'
  return `${code}: ${meaning} (code ${from})\n  cause: ${cause}\n  what to do: ${cure}\n`
}
