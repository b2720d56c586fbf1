// SPDX-License-Identifier: Apache-2.0
// Explanations as text for people.

import type { Check } from '../lint/checks/check-texts.ts'
import type { ErrorCode } from './error-codes.ts'
import type { KnownError } from './known/known-error.ts'
import type { OwnError } from './own/own-errors.ts'
import type { Recognised } from './recognise.ts'

/** So many fragments that were not recognised are shown, each so long. */
const mostFragments = 6
const longestFragment = 100

/** A code and its meaning, a line. */
export function codeTitle({ code, meaning }: ErrorCode): string {
  return `${`${code}`.padStart(4)}  ${meaning}\n`
}

/** All of a code. */
export function codeText({ code, source, meaning, cause, cure }: ErrorCode): string {
  const from = source === 'CNI' ? 'of the CNI specification' : 'of trestle'
  return `${code}: ${meaning} (code ${from})\n  cause: ${cause}\n  what to do: ${cure}\n`
}

/** All of an id. */
export function idText({ id, code, cause, cure }: OwnError): string {
  const number = code === undefined ? "the code is the other plugin's" : `code ${code}`
  return `${id}: an error of trestle (${number})\n  cause: ${cause}\n  what to do: ${cure}\n`
}

/** All of a finding. `of`: the command that has it. */
export function checkText(id: string, { severity, meaning, cause, cure }: Check, of = 'trestle lint'): string {
  return `${id}: ${meaning} (${severity}, ${of})\n  cause: ${cause}\n  what to do: ${cure}\n`
}

/** All of a known error. */
export function knownText({ id, who, meaning, causes, look, cure, run, checks: see = [] }: KnownError): string {
  const [first, ...others] = causes
  const cause =
    others.length === 0
      ? `  cause: ${first}\n`
      : `  causes, the likely one first:\n${causes.map((each, at) => `    ${at + 1}. ${each}\n`).join('')}`
  const commands = look.length === 0 ? '' : `  look at:\n${look.map((command) => `    ${command}\n`).join('')}`
  const more = see.length === 0 ? '' : `  findings that go with it: ${see.join(', ')}\n`
  const command = run === undefined ? '' : `    ${run}\n`
  return `${id}: ${meaning} (from ${who})\n${cause}${commands}  what to do: ${cure}\n${command}${more}`
}

/** What is known of a text: causes in full, what is around them in a line each, and what was not recognised. */
export function recognisedText(found: Recognised): string {
  const { errors, codes, own, layers, known, unknown } = found
  const causes = errors.filter(({ role }) => role === 'cause')
  const around = errors.filter(({ role }) => role === 'around')
  const after = errors.filter(({ role }) => role === 'after')
  // An id says more than its code.
  const otherCodes = codes.filter(({ code }) => !own.some((each) => each.code === code))
  const blocks = [...own.map(idText), ...otherCodes.map(codeText), ...causes.map(knownText)]
  const lines = [
    line('passed on by', layers.map(({ who }) => who).join(' > ')),
    ...around.map(({ id, meaning }) => `around it: ${id}: ${meaning}\n`),
    ...after.map(({ id, meaning }) => `said after it, while cleaning up: ${id}: ${meaning}\n`),
    line('recognised', known.map(quoted).join(', ')),
    line('not recognised', fragments(unknown)),
  ]
  if (blocks.length === 0) blocks.push(unknownText(found))
  return [...blocks, lines.join('')].filter((text) => text !== '').join('\n')
}

/** Of a text without a known error; the innermost plugin that it names is who to ask. */
function unknownText({ layers, hints, nearest }: Recognised): string {
  const plugin = layers.findLast(({ who }) => who.startsWith('plugin '))
  const whose =
    plugin === undefined ? '' : `; the words are of ${plugin.who}: its log, and that of its agent, tell more`
  const guess = nearest.length === 0 ? [] : ['nearest by its words, which is a guess (`trestle explain ID` tells all):']
  const entries = nearest.map(({ id, meaning, who }) => `  ${id}: ${meaning} (from ${who})`)
  const lines = [...hints, ...guess, ...entries].map((text) => `  ${text}\n`)
  return [`no error that is known here is in this text${whose}\n`, ...lines].join('')
}

function line(title: string, text: string): string {
  return text === '' ? '' : `${title}: ${text}\n`
}

function fragments(unknown: readonly string[]): string {
  const more = unknown.length > mostFragments ? `, and ${unknown.length - mostFragments} more` : ''
  return `${unknown.slice(0, mostFragments).map(quoted).join(', ')}${more}`
}

function quoted(text: string): string {
  const oneLine = text.replace(/\s+/g, ' ')
  return `"${oneLine.length > longestFragment ? `${oneLine.slice(0, longestFragment)}…` : oneLine}"`
}
