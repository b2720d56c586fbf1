// SPDX-License-Identifier: Apache-2.0
// What lint says: which check, how bad, where, what, and what to do.

import { positionOf } from '../../cni/json/json-problem.ts'
import { oneLine } from '../../cni/model/error.ts'
import type { Severity } from './checks/check-texts.ts'
import { type CheckId, checks } from './checks/checks.ts'
import { type JsonPlaces, placesOf, type Step } from './json.ts'

export interface Finding {
  readonly id: CheckId
  readonly severity: Severity
  /** As the user named it; `-` for standard input. */
  readonly file: string
  /** From 1; the column in UTF-16 units. */
  readonly line?: number
  readonly column?: number
  readonly message: string
  readonly cause: string
  readonly cure: string
  /** The line of the file, and under it a caret at the column. */
  readonly excerpt?: readonly [string, string]
}

/**
 * What a check found. `steps` or `offset`: where, if in the text; `cause`, `cure`, `severity`: where they are not the
 * check's own.
 */
export interface Found {
  readonly id: CheckId
  readonly message: string
  readonly cause?: string
  readonly cure?: string | undefined
  readonly severity?: Severity
  readonly steps?: readonly Step[]
  readonly offset?: number
  /** Point at the value; else at its key. */
  readonly isAboutValue?: boolean
  /** It is about a key that is not there: where keys are misspelt, these are the finding. */
  readonly isAbsence?: boolean
}

/** A file that is one JSON object. */
export interface Source {
  readonly file: string
  readonly text: string
  readonly root: Readonly<Record<string, unknown>>
  readonly places: JsonPlaces
  /** Offsets where 0 stands in for a placeholder of a template that is no JSON. */
  readonly standIns?: readonly number[]
}

/** A source of a text that JSON.parse has taken. */
export function sourceOf(file: string, text: string, root: Source['root']): Source {
  return { file, text, root, places: placesOf(text) }
}

/** A finding without a place in the text. */
export function findingIn(file: string, found: Found): Finding {
  const { id, message } = found
  const { severity, cause, cure } = checks[id]
  const texts = { cause: found.cause ?? cause, cure: found.cure ?? cure }
  return { id, severity: found.severity ?? severity, file, message, ...texts }
}

/** A finding at an offset of the text. */
export function findingAt(file: string, text: string, found: Found & { readonly offset: number }): Finding {
  const { line, column } = positionOf(text, found.offset)
  return { ...findingIn(file, found), line, column, excerpt: excerptOf(text, line, column) }
}

/** A finding at the key or value it is about. */
export function findingOf(source: Source, found: Found): Finding {
  const place = source.places.find(found.steps ?? [])
  const offset = found.offset ?? (found.isAboutValue ? place.value : (place.key ?? place.value))
  return findingAt(source.file, source.text, { ...found, offset })
}

/** Longer lines are cut, so that the caret is on the screen. */
const widest = 100

function excerptOf(text: string, line: number, column: number): readonly [string, string] {
  const whole = (text.split('\n')[line - 1] ?? '').replace(/\r$/, '')
  const from = column <= widest ? 0 : column - widest / 2
  // A tab stays a tab, so that the caret stands where the terminal puts the character.
  const shown = whole.slice(from, from + widest).replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '?')
  const indent = shown.slice(0, column - 1 - from).replace(/[^\t]/g, ' ')
  return [shown, `${indent.padEnd(column - 1 - from)}^`]
}

/** How many of each. */
interface LintCounts {
  readonly errors: number
  readonly warnings: number
  readonly notes: number
}

const colours: Readonly<Record<Severity, number>> = { error: 31, warning: 33, note: 36 }

/** One finding, its line break included. */
export function findingText(finding: Finding, hasColour: boolean): string {
  const { id, severity, message, cause, cure, excerpt } = finding
  const word = hasColour ? `\x1b[${colours[severity]}m${severity}\x1b[0m` : severity
  const number = String(finding.line ?? '')
  const lines =
    excerpt === undefined ? [] : [`${number.padStart(6)} | ${excerpt[0]}`, `${' '.repeat(6)} | ${excerpt[1]}`]
  const more = severity === 'note' ? [] : [`       cause: ${cause}`, `       cure: ${oneLine(cure)}`]
  return [`${placeOf(finding)}: ${word}: ${oneLine(message)} [${id}]`, ...lines, ...more, ''].join('\n')
}

function placeOf({ file, line, column }: Finding): string {
  const name = file === '-' ? '<stdin>' : oneLine(file)
  return line === undefined ? name : `${name}:${line}:${column}`
}

/** The counts of these findings. */
export function countsOf(findings: readonly Finding[]): LintCounts {
  const count = (severity: Severity) => findings.filter((finding) => finding.severity === severity).length
  return { errors: count('error'), warnings: count('warning'), notes: count('note') }
}

/** The last line: never silent on success. */
export function countsText({ errors, warnings, notes }: LintCounts, files: number): string {
  const some = (count: number, word: string) => `${count} ${word}${count === 1 ? '' : 's'}`
  return `${some(errors, 'error')}, ${some(warnings, 'warning')}, ${some(notes, 'note')} in ${some(files, 'file')}\n`
}
