// SPDX-License-Identifier: Apache-2.0
// Explanations as text for people, and as data.

import { type Diagnosis, isErrorId, isKnownError } from '../../catalogue/diagnosis.ts'
import type { Found, Recognised } from './recognise.ts'

const longestQuote = 100

/** True for the diagnosis of a code, whose id is its number. */
export function isCode({ id, code }: Diagnosis): boolean {
  return id === `code-${code}`
}

export function codeTitle({ code, meaning }: Diagnosis): string {
  return `${`${code}`.padStart(4)}  ${meaning}\n`
}

export function diagnosisText(about: Diagnosis): string {
  const { id, code, meaning, causes, look, cure, run } = about
  const [first, ...others] = causes
  const cause =
    others.length === 0
      ? `  cause: ${first}\n`
      : `  causes, the likely one first:\n${causes.map((each, at) => `    ${at + 1}. ${each}\n`).join('')}`
  const commands = look.length === 0 ? '' : `  look at:\n${look.map((command) => `    ${command}\n`).join('')}`
  const findings = isKnownError(about) ? (about.findings ?? []) : []
  const more = findings.length === 0 ? '' : `  findings that go with it: ${findings.join(', ')}\n`
  const command = run === undefined ? '' : `    ${run.trimEnd().replaceAll('\n', '\n    ')}\n`
  const title = `${isCode(about) ? code : id}: ${meaning} (${originOf(about)})\n`
  return `${title}${cause}${commands}  what to do: ${cure}\n${command}${more}`
}

/** The programs whose words a diagnosis explains. */
function originOf(about: Diagnosis): string {
  const { id, family, severity, code } = about
  if (isKnownError(about)) return `from ${about.program}`
  if (isCode(about)) return `code of ${(code ?? 0) < 100 ? 'the CNI specification' : 'trestle'}`
  const finding = severity === undefined ? [] : [`${severity}, trestle ${family}`]
  const error = isErrorId(id) ? [`an error of trestle${code === undefined ? '' : `, code ${code}`}`] : []
  return [...finding, ...error].join('; ')
}

/** As `-o json` has it; `cause`: all causes as one text. Role and words of an error that was found in a text. */
export function documentOf(about: Diagnosis | Found): Readonly<Record<string, unknown>> {
  const { id, code, severity, group, meaning, causes, look, cure, run } = about
  const { program: who, findings: checks } = isKnownError(about) ? about : {}
  const found = 'role' in about ? { role: about.role, said: about.said } : {}
  return {
    id,
    who,
    code,
    severity,
    group,
    meaning,
    cause: causes.join('; or '),
    causes,
    look,
    cure,
    run,
    checks,
    ...found,
  }
}

/** The analysis as text: causes in full, and messages around them in a line each. */
export function recognisedText(found: Recognised): string {
  const { errors, codes, own, known } = found
  const causes = errors.filter(({ role }) => role === 'cause')
  const around = errors.filter(({ role }) => role === 'around')
  const after = errors.filter(({ role }) => role === 'after')
  // An id replaces its code, since it says more.
  const otherCodes = codes.filter(({ code }) => !own.some((each) => each.code === code))
  const blocks = [...own, ...otherCodes, ...causes].map(diagnosisText)
  const lines = [
    ...around.map(({ id, meaning }) => `around it: ${id}: ${meaning}\n`),
    ...after.map(({ id, meaning }) => `said after it, while cleaning up: ${id}: ${meaning}\n`),
    line('recognised', known.map(quoted).join(', ')),
  ]
  if (blocks.length === 0) blocks.push('not known here\n')
  return [...blocks, lines.join('')].filter((text) => text !== '').join('\n')
}

function line(title: string, text: string): string {
  return text === '' ? '' : `${title}: ${text}\n`
}

function quoted(text: string): string {
  const oneLine = text.replace(/\s+/g, ' ')
  return `"${oneLine.length > longestQuote ? `${oneLine.slice(0, longestQuote)}…` : oneLine}"`
}
