// SPDX-License-Identifier: Apache-2.0
// Findings with their places in the text of a file.

import { positionOf } from '../../cni/json/json-problem.ts'
import { type Finding, findingOf as published } from '../shell/findings.ts'
import { type JsonPlaces, placesOf, type Step } from './json.ts'

/**
 * What a check found. `steps` or `offset`: where, if in the text; `cause`, `cure`, `severity`: where they are not the
 * check's own.
 */
export interface Found {
  readonly id: string
  readonly message: string
  readonly cause?: string
  readonly cure?: string | undefined
  readonly severity?: Finding['severity']
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
export function findingIn(file: string, { id, message, cause, cure, severity }: Found): Finding {
  return published({ id, on: file, file, message, cause, cure, severity })
}

/** A finding at an offset of the text. */
export function findingAt(file: string, text: string, found: Found & { readonly offset: number }): Finding {
  const { line, column } = positionOf(text, found.offset)
  return { ...findingIn(file, found), line, column, excerpt: excerptOf(text, line, column) }
}

/** A finding at the key or value it is about. */
export function findingAtKey(source: Source, found: Found): Finding {
  const place = source.places.find(found.steps ?? [])
  const offset = found.offset ?? (found.isAboutValue ? place.value : (place.key ?? place.value))
  return findingAt(source.file, source.text, { ...found, offset })
}

/** Longer lines are cut, so that the caret is on the screen. */
const widest = 100

function excerptOf(text: string, line: number, column: number): [string, string] {
  const whole = (text.split('\n')[line - 1] ?? '').replace(/\r$/, '')
  const from = column <= widest ? 0 : column - widest / 2
  // A tab stays a tab, so that the caret stands where the terminal puts the character.
  const shown = whole.slice(from, from + widest).replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '?')
  const indent = shown.slice(0, column - 1 - from).replace(/[^\t]/g, ' ')
  return [shown, `${indent.padEnd(column - 1 - from)}^`]
}
