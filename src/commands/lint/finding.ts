// SPDX-License-Identifier: Apache-2.0
// Findings with their places in the text of a file.

import { defined } from '../../cni/json.ts'
import { maskedText } from '../../recording/secrets.ts'
import { type Finding, findingOf as published } from '../findings.ts'
import { type JsonText, positionOf, type Step } from '../json-text.ts'

/** The result of a rule. `steps`: its place; `cause`, `cure` and `severity` replace those of the catalogue. */
export interface Found {
  readonly id: string
  readonly message: string
  readonly steps?: readonly Step[]
  readonly cause?: string
  readonly cure?: string | undefined
  readonly severity?: Finding['severity']
  /** Points at the value, not at its key. */
  readonly isAboutValue?: boolean
  /** It is about an absent key, which may only be misspelt. */
  readonly isAbsence?: boolean
}

/** A file that is a JSON object. */
export interface Source {
  readonly file: string
  readonly text: string
  readonly root: Readonly<Record<string, unknown>>
  readonly json: JsonText
}

export function findingIn(file: string, { id, message, cause, cure, severity }: Found): Finding {
  return published({ id, on: file, file, message, cause, cure, severity })
}

export function findingAt(file: string, text: string, found: Found & { readonly offset: number }): Finding {
  const { line, column } = positionOf(text, found.offset)
  return { ...findingIn(file, found), line, column, ...defined({ excerpt: excerptOf(text, line, column) }) }
}

export function findingAtKey({ file, text, json }: Source, found: Found): Finding {
  return findingAt(file, text, { ...found, offset: json.offsetOf(found.steps ?? [], found.isAboutValue) })
}

/** Longer lines are cut, so that the caret is on the screen. */
const widest = 100
/** Of a longer line nothing is shown: each finding would take its time to look for secrets. */
const longestLine = 10_000

/** The line and a caret below it. None where a secret stands before the caret: findings go into bug reports. */
function excerptOf(text: string, line: number, column: number): [string, string] | undefined {
  const written = (text.split('\n')[line - 1] ?? '').replace(/\r$/, '')
  if (written.length > longestLine) return undefined
  const whole = maskedText(written)
  if (!whole.startsWith(written.slice(0, column - 1))) return undefined
  const from = column <= widest ? 0 : column - widest / 2
  // A tab stays a tab, so that the caret is below its character.
  const shown = whole.slice(from, from + widest).replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '?')
  const indent = shown.slice(0, column - 1 - from).replace(/[^\t]/g, ' ')
  return [shown, `${indent.padEnd(column - 1 - from)}^`]
}
