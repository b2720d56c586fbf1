// SPDX-License-Identifier: Apache-2.0
// What lint says: which check, how bad, where, what, and what to do.

import { positionOf } from '../../../cni/json/json-problem.ts'
import { type JsonPlaces, placesOf, type Step } from '../json/json-places.ts'
import type { Severity } from './check-texts.ts'
import { type CheckId, checks } from './checks.ts'

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
