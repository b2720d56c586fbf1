// SPDX-License-Identifier: Apache-2.0
// A finding of lint or doctor: a diagnosis of the catalogue with its place and observation, as text and
// as JSON.

import { styleText } from 'node:util'
import { diagnosis, type Severity } from '../catalogue/diagnosis.ts'
import { oneLine } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import { UsageError } from './command.ts'
import { nearestWord } from './nearest-word.ts'
import type { Output } from './output.ts'

/** One finding of lint or doctor, as docs/findings.schema.json has it; what further keys are is said there. */
export interface Finding {
  readonly id: string
  readonly severity: Severity
  readonly on: string
  readonly message: string
  readonly cause: string
  readonly cure: string
  readonly run?: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
  readonly excerpt?: readonly [string, string]
  readonly group?: string
  readonly seen?: string
  readonly consequence?: string
}

/** A diagnosis and its place. A key that is left out is as the diagnosis says. */
export type Found = Pick<Finding, 'id' | 'on' | 'message'> & { readonly [K in keyof Finding]?: Finding[K] | undefined }

/** The finding with the texts of its diagnosis. */
export function findingOf(found: Found): Finding {
  const { severity = 'error', group, meaning, causes, cure, run } = diagnosis(found.id)
  const ofDoctor = (found.group ?? group) === undefined ? {} : { group, consequence: meaning }
  return defined({ severity, ...ofDoctor, cause: causes.join('; or '), cure, run, ...defined(found) }) as Finding
}

/** The words of a comma-separated option. Throws UsageError for an unknown word, which would have no effect. */
export function wordsOf(option: string, value: string | boolean | undefined, known: readonly string[]) {
  const words = `${value ?? ''}`.split(',').filter((word) => word !== '')
  const wrong = words.find((word) => !known.includes(word))
  if (wrong === undefined) return words
  const meant = nearestWord(wrong, known)
  throw new UsageError(
    `--${option} ${wrong}: ${meant === undefined ? 'use what a finding has in front of it' : `did you mean "${meant}"?`}`,
  )
}

type Look = Pick<Output, 'hasColour'>

const colours = { error: 'red', warning: 'yellow', note: 'cyan', ok: 'green', skip: 'yellow', fail: 'red' } as const

/** A word in the colour of its severity or outcome. */
export function painted(word: string, as: keyof typeof colours, { hasColour }: Look): string {
  return hasColour ? styleText(colours[as], word, { validateStream: false }) : word
}

/** A finding as text: about a file as compilers print an error, any other as part of a group of the report. */
export function findingText(finding: Finding, look: Look): string {
  const { id, severity, on, message, consequence = message, cause, cure, run } = finding
  const advice = severity === 'note' ? [] : [`cause: ${cause}`, `cure:  ${cure}`]
  if (finding.file !== undefined) return `${placeText(finding, look)}${indented(advice, 7)}`
  const so = consequence === message ? [] : [`so:    ${consequence}`]
  const command = run === undefined ? '' : `${run.trimEnd().replace(/^/gm, '             ')}\n`
  const head = `  ${painted(severity.padEnd(7), severity, look)}  ${id}: ${oneLine(on)}\n`
  return `${head}${indented([`seen:  ${message}`, ...so, ...advice], 11)}${command}`
}

function placeText({ id, severity, file, line, column, message, excerpt }: Finding, look: Look): string {
  const name = file === '-' ? '<stdin>' : oneLine(file ?? '')
  const place = line === undefined ? name : `${name}:${line}:${column}`
  const [above, below] = excerpt ?? []
  const lines = excerpt === undefined ? '' : `${`${line}`.padStart(6)} | ${above}\n${' '.repeat(6)} | ${below}\n`
  return `${place}: ${painted(severity, severity, look)}: ${oneLine(message)} [${id}]\n${lines}`
}

function indented(lines: readonly string[], indent: number): string {
  return lines.map((line) => `${' '.repeat(indent)}${oneLine(line)}\n`).join('')
}

export function countOf(findings: readonly Finding[], severity: Severity): number {
  return findings.filter((finding) => finding.severity === severity).length
}

/** A number with its word: `1 error`, `2 errors`. */
export function counted(number: number, word: string, plural = 's'): string {
  return `${number} ${word}${number === 1 ? '' : plural}`
}
