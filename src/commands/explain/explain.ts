// SPDX-License-Identifier: Apache-2.0
// `trestle explain`: explains an error code, the id of a finding, or a pasted error of kubelet, a runtime or a plugin.

import { type Diagnosis, diagnoses } from '../../catalogue/diagnosis.ts'
import { type Command, exitCode, type Input } from '../command.ts'
import { readInputText } from '../input-file.ts'
import { nearestWord } from '../nearest-word.ts'
import { print } from '../output.ts'
import { codeTitle, diagnosisText, documentOf, recognisedText } from './explanation.ts'
import { isFailureKept, showLast } from './last.ts'
import { errorCodes, type Found, isEmpty, ownErrors, recognise } from './recognise.ts'

export const explainCommand: Command = {
  name: 'explain',
  words: '[CODE, ID or TEXT]',
  maxWords: 10_000,
  summary: 'tell what an error means, why it comes and what to do',
  description: [
    'Explains a code, an id of an error or of a finding, or a text of kubelet, a runtime or a plugin (- reads',
    'standard input). Without CODE: the newest call that failed, or all codes where none is kept. An unknown code or',
    'text: exit code 1.',
  ].join('\n'),
  options: { codes: { type: 'boolean', help: 'list all codes' } },
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

function run({ words, values, isJson, output }: Input): number {
  const out: Out = { isJson, output }
  const [word] = words
  if (values['codes'] === true || (word === undefined && !isFailureKept())) {
    return answer(exitCode.fine, out, errorCodes(), errorCodes().map(codeTitle).join(''))
  }
  if (word === undefined) return showLast(out, 'explain')
  if (word === '-') return explainText(readInputText('-'), out)
  if (words.length > 1 || /\s/.test(word)) return explainText(words.join(' '), out)
  if (/^\d{1,6}$/.test(word)) return explainCode(Number(word), out)
  const known = diagnoses().get(word)
  return known === undefined ? explainText(word, out) : answer(exitCode.fine, out, [known], diagnosisText(known))
}

/** Prints the text, or a document with the diagnoses. */
function answer(code: number, out: Out, all: readonly (Diagnosis | Found)[], text: string, more: object = {}): number {
  return print(out, { command: 'explain', document: { diagnoses: all.map(documentOf), ...more }, text, code })
}

function explainCode(number: number, out: Out): number {
  const codes = errorCodes().filter(({ code }) => code === number)
  const ids = ownErrors().filter(({ code }) => code === number)
  const unknown = `${number} is none of trestle's codes; a delegated plugin may use it\n`
  if (codes.length === 0) return answer(exitCode.findings, out, ids, unknown)
  const more = ids.length === 0 ? '' : `  ids: ${ids.map(({ id }) => id).join(', ')}\n`
  return answer(exitCode.fine, out, [...codes, ...ids], `${codes.map(diagnosisText).join('')}${more}`)
}

function explainText(text: string, out: Out): number {
  const found = recognise(text)
  const { codes, own, errors, known } = found
  const more = { recognised: known }
  const isUnknownWord = isEmpty(found) && !/\s/.test(text)
  const code = isEmpty(found) ? exitCode.findings : exitCode.fine
  return answer(
    code,
    out,
    [...codes, ...own, ...errors],
    isUnknownWord ? unknownWord(text) : recognisedText(found),
    more,
  )
}

function unknownWord(word: string): string {
  const meant = nearestWord(word, [...diagnoses().keys()])
  const hint =
    meant === undefined ? 'use a number, an id that lint or doctor prints, or the text' : `did you mean "${meant}"?`
  return `"${word}" is no error code and no id of an error or a finding: ${hint}\n`
}
