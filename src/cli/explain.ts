// SPDX-License-Identifier: Apache-2.0
// `trestle explain`: an error code, the id of a finding, or a pasted error of kubelet or a runtime, in words.

import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { type ErrorCode, errorCodes } from './error-codes.ts'
import type { KnownError } from './explain/known-errors.ts'
import { knownErrors } from './explain/known-errors.ts'
import { knownError, type Recognised, recognise } from './explain/recognise.ts'
import type { Check } from './lint/check-texts.ts'
import { checks, isCheckId } from './lint/checks.ts'
import { nearestWord } from './lint/nearest-word.ts'
import { readInputText } from './read-input.ts'

export const explainCommand: Command = {
  name: 'explain',
  words: '[CODE, ID or TEXT]',
  maxWords: 10_000,
  summary: 'tell what an error means, why it comes and what to do',
  description: [
    'Explains the "code" of a CNI error, the id of a finding of `trestle lint`, or a text with an error as kubelet,',
    'containerd, CRI-O or cnitool print it (- reads it from standard input). Without CODE: all codes.',
    'An unknown code or text: exit code 1.',
  ].join('\n'),
  options: {},
  examples: [
    "trestle explain 'cni plugin not initialized'",
    'trestle explain 101',
    'trestle explain json-syntax',
    'kubectl describe pod web | trestle explain -',
  ],
  run,
}

type Out = Pick<Input, 'isJson' | 'output'>

function run({ words, isJson, output }: Input): number {
  const out: Out = { isJson, output }
  const [word] = words
  if (word === undefined) return told({ codes: errorCodes }, errorCodes.map(line).join(''), out)
  if (word === '-') return explainText(readInputText('-'), out)
  if (words.length > 1 || /\s/.test(word)) return explainText(words.join(' '), out)
  if (/^\d{1,6}$/.test(word)) return explainCode(Number(word), out)
  if (isCheckId(word)) return told({ checks: [{ id: word, ...checks[word] }] }, checkText(word, checks[word]), out)
  const known = knownError(word)
  if (known !== undefined) return told({ errors: [known] }, knownText(known), out)
  const { errors, codes } = recognise(word)
  if (errors.length + codes.length > 0) return explainText(word, out)
  throw unknown(word)
}

/** Prints what was found; nothing found is exit code 1. */
function told(found: Readonly<Record<string, readonly unknown[]>>, text: string, { isJson, output }: Out): number {
  const isKnown = Object.values(found).some((list) => list.length > 0)
  const code = isKnown ? exitCode.fine : exitCode.findings
  const document = { formatVersion: 1, command: 'explain', ...found, exitCode: code }
  output.out(isJson ? `${JSON.stringify(document, withoutPattern, 2)}\n` : text)
  return code
}

function withoutPattern(key: string, value: unknown): unknown {
  return key === 'pattern' ? undefined : value
}

function explainCode(number: number, out: Out): number {
  const codes = errorCodes.filter(({ code }) => code === number)
  const text = codes.map(paragraph).join('') || `${number} is none of trestle's codes; a delegated plugin may use it\n`
  return told({ codes }, text, out)
}

function explainText(text: string, out: Out): number {
  const found: Recognised = recognise(text)
  const texts = [...found.codes.map(paragraph), ...found.errors.map((known) => knownText(known))]
  const nothing = 'no error that is known here is in this text\n'
  return told({ errors: found.errors, codes: found.codes }, texts.join('\n') || nothing, out)
}

function unknown(word: string): UsageError {
  const ids = [...Object.keys(checks), ...knownErrors.map(({ id }) => id)]
  const meant = nearestWord(word, ids)
  const hint =
    meant === undefined ? 'use a number, an id that `trestle lint` prints, or the text' : `did you mean "${meant}"?`
  return new UsageError(`"${word}" is no error code and no id of a finding: ${hint}`)
}

function line({ code, meaning }: ErrorCode): string {
  return `${`${code}`.padStart(4)}  ${meaning}\n`
}

function paragraph({ code, source, meaning, cause, cure }: ErrorCode): string {
  const from = source === 'CNI' ? 'of the CNI specification' : 'of trestle'
  return `${code}: ${meaning} (code ${from})\n  cause: ${cause}\n  what to do: ${cure}\n`
}

function checkText(id: string, { severity, meaning, cause, cure }: Check): string {
  return `${id}: ${meaning} (${severity}, trestle lint)\n  cause: ${cause}\n  what to do: ${cure}\n`
}

function knownText({ id, who, meaning, cause, cure, checks: see = [] }: KnownError): string {
  const more = see.length === 0 ? '' : `  findings that go with it: ${see.join(', ')}\n`
  return `${id}: ${meaning} (from ${who})\n  cause: ${cause}\n  what to do: ${cure}\n${more}`
}
