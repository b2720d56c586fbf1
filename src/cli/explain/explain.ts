// SPDX-License-Identifier: Apache-2.0
// `trestle explain`: an error code, the id of a finding, or a pasted error of kubelet or a runtime, in words.

import { isErrorId } from '../../cni/model/error-code.ts'
import { doctorChecks, isDoctorCheckId } from '../doctor/checks/checks.ts'
import { checks, isCheckId } from '../lint/checks/checks.ts'
import { type Command, exitCode, type Input, UsageError } from '../shell/command.ts'
import type { PublishedFinding } from '../shell/document-schema.ts'
import { nearestWord } from '../shell/nearest-word.ts'
import { readInputText } from '../shell/read-input.ts'
import { knownErrors } from './catalogue/known-errors.ts'
import { errorCodes } from './error-codes.ts'
import type { KnownError } from './known/known-error.ts'
import { type OwnError, ownError, ownErrors } from './own/own-errors.ts'
import { ofCheck, ofKnown, ofOwn } from './published.ts'
import { type Found, isEmpty, knownError, recognise } from './recognise.ts'
import { checkText, codeText, codeTitle, idText, knownText, recognisedText } from './text.ts'

export const explainCommand: Command = {
  name: 'explain',
  words: '[CODE, ID or TEXT]',
  maxWords: 10_000,
  summary: 'tell what an error means, why it comes and what to do',
  description: [
    'Explains the "code" or the [id] of an error, the id of a finding of `trestle lint` or `trestle doctor`, or a',
    'text with an error as kubelet, containerd, CRI-O or cnitool print it (- reads it from standard input), also of',
    'other plugins and their agents: what it means, the usual causes, the likely one first, what to look at and what',
    'to do; which words were recognised and which were not. Without CODE: all codes. An unknown code or text: exit',
    'code 1.',
  ].join('\n'),
  options: {},
  examples: [
    "trestle explain 'cni plugin not initialized'",
    'trestle explain 101',
    'trestle explain pool-exhausted',
    'trestle explain json-syntax',
    'kubectl describe pod web | trestle explain -',
  ],
  run,
}

type Out = Pick<Input, 'isJson' | 'output'>

/** What is printed as JSON. */
interface Explained {
  readonly errors?: readonly unknown[]
  readonly codes?: readonly unknown[]
  readonly ids?: readonly OwnError[]
  readonly checks?: readonly unknown[]
  readonly callers?: readonly string[]
  readonly findings?: readonly PublishedFinding[]
  readonly recognised?: readonly string[]
  readonly unrecognised?: readonly string[]
  readonly hints?: readonly string[]
  readonly nearest?: readonly unknown[]
}

function run({ words, isJson, output }: Input): number {
  const out: Out = { isJson, output }
  const [word] = words
  if (word === undefined) return write({ codes: errorCodes }, errorCodes.map(codeTitle).join(''), out)
  if (word === '-') return explainText(readInputText('-'), out)
  if (words.length > 1 || /\s/.test(word)) return explainText(words.join(' '), out)
  if (/^\d{1,6}$/.test(word)) return explainCode(Number(word), out)
  if (isErrorId(word) || isCheckId(word) || isDoctorCheckId(word)) return explainId(word, out)
  const known = knownError(word)
  if (known !== undefined)
    return write({ errors: [documentOf(known)], findings: [ofKnown(known)] }, knownText(known), out)
  if (!isEmpty(recognise(word))) return explainText(word, out)
  throw unknownWord(word)
}

/** Prints what was found; nothing found is exit code 1. */
function write(found: Explained, text: string, { isJson, output }: Out): number {
  const isKnown = [found.errors, found.codes, found.ids, found.checks].some((list) => (list?.length ?? 0) > 0)
  const code = isKnown ? exitCode.fine : exitCode.findings
  const document = { formatVersion: 1, command: 'explain', ...found, exitCode: code }
  output.out(isJson ? `${JSON.stringify(document, undefined, 2)}\n` : text)
  return code
}

function explainCode(number: number, out: Out): number {
  const codes = errorCodes.filter(({ code }) => code === number)
  const ids = ownErrors.filter(({ code }) => code === number)
  const more = ids.length === 0 ? '' : `  ids: ${ids.map(({ id }) => id).join(', ')}\n`
  const text = codes.map((code) => `${codeText(code)}${more}`).join('')
  return write(
    { codes, ids, findings: ids.map(ofOwn) },
    text || `${number} is none of trestle's codes; a delegated plugin may use it\n`,
    out,
  )
}

/** An id that an error and a finding share means the same in both. */
function explainId(word: string, out: Out): number {
  const ids = isErrorId(word) ? [ownError(word)] : []
  const found = isCheckId(word) ? [{ id: word, ...checks[word] }] : []
  const ofDoctor = isDoctorCheckId(word) ? [{ id: word, ...doctorChecks[word] }] : []
  const texts = [
    ...ids.map(idText),
    ...found.map((check) => checkText(check.id, check)),
    ...ofDoctor.map((check) => checkText(check.id, check, 'trestle doctor')),
  ]
  const findings = [
    ...ids.map(ofOwn),
    ...found.map((check) => ofCheck(check.id, check, 'trestle lint')),
    ...ofDoctor.map((check) => ofCheck(check.id, check, 'trestle doctor')),
  ]
  return write({ ids, checks: [...found, ...ofDoctor], findings }, texts.join('\n'), out)
}

function explainText(text: string, out: Out): number {
  const found = recognise(text)
  const { codes, own, layers, known, unknown, hints } = found
  const nearest = found.nearest.map(({ id, who, meaning }) => ({ id, who, meaning }))
  const callers = layers.map(({ who }) => who)
  const errors = found.errors.map(foundDocument)
  const findings = [...own.map(ofOwn), ...found.errors.map(ofKnown)]
  const words = { recognised: known, unrecognised: unknown, hints, nearest }
  const document = { errors, codes, ids: own, findings, callers, ...words }
  return write(document, recognisedText(found), out)
}

function foundDocument(found: Found): Readonly<Record<string, unknown>> {
  return { ...documentOf(found), role: found.role, said: found.said }
}

/** An entry without how it is recognised. `cause`: all causes as one text. */
function documentOf({ id, who, meaning, causes, look, cure, ...more }: KnownError): Readonly<Record<string, unknown>> {
  const { run: command, checks: see } = more
  const optional = { ...(command === undefined ? {} : { run: command }), ...(see === undefined ? {} : { checks: see }) }
  return { id, who, meaning, cause: causes.join('; or '), causes, look, cure, ...optional }
}

function unknownWord(word: string): UsageError {
  const ids = [
    ...ownErrors.map(({ id }) => id),
    ...Object.keys(checks),
    ...Object.keys(doctorChecks),
    ...knownErrors.map(({ id }) => id),
  ]
  const meant = nearestWord(word, ids)
  const hint =
    meant === undefined ? 'use a number, an id that lint or doctor prints, or the text' : `did you mean "${meant}"?`
  return new UsageError(`"${word}" is no error code and no id of an error or a finding: ${hint}`)
}
