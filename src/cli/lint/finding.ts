// SPDX-License-Identifier: Apache-2.0
// Findings with their places in the text of a file.

import { positionOf } from '../../cni/config-head.ts'
import { keyPath, printable, quote } from '../../cni/error.ts'
import { defined } from '../../cni/json.ts'
import { maskedText } from '../../cni/secrets.ts'
import { type Finding, findingOf as published } from '../shell/findings.ts'

/**
 * The result of a rule. `steps` or `offset`: its place; `cause`, `cure`, `severity`: replace those of the diagnosis.
 */
export interface Found {
  readonly id: string
  readonly message: string
  readonly cause?: string
  readonly cure?: string | undefined
  readonly severity?: Finding['severity']
  readonly steps?: readonly Step[]
  readonly offset?: number
  /** Points at the value, not at its key. */
  readonly isAboutValue?: boolean
  /** It is about an absent key: where keys are misspelt, the misspelling is the finding. */
  readonly isAbsence?: boolean
}

export interface Source {
  readonly file: string
  readonly text: string
  readonly root: Readonly<Record<string, unknown>>
  readonly places: JsonPlaces
  /** Offsets where 0 replaces a placeholder that is not JSON. */
  readonly standIns?: readonly number[]
}

export function findingIn(file: string, { id, message, cause, cure, severity }: Found): Finding {
  return published({ id, on: file, file, message, cause, cure, severity })
}

export function findingAt(file: string, text: string, found: Found & { readonly offset: number }): Finding {
  const { line, column } = positionOf(text, found.offset)
  return { ...findingIn(file, found), line, column, ...defined({ excerpt: excerptOf(text, line, column) }) }
}

export function findingAtKey(source: Source, found: Found): Finding {
  const place = source.places.find(found.steps ?? [])
  const offset = found.offset ?? (found.isAboutValue ? place.value : (place.key ?? place.value))
  return findingAt(source.file, source.text, { ...found, offset })
}

/**
 * Longer lines are cut, so that the caret is on the screen. None where a secret stands before the caret: findings go
 * into bug reports.
 */
const widest = 100

function excerptOf(text: string, line: number, column: number): [string, string] | undefined {
  const written = (text.split('\n')[line - 1] ?? '').replace(/\r$/, '')
  const whole = maskedText(written)
  if (!whole.startsWith(written.slice(0, column - 1))) return undefined
  const from = column <= widest ? 0 : column - widest / 2
  // A tab stays a tab, so that the caret is below its character.
  const shown = whole.slice(from, from + widest).replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '?')
  const indent = shown.slice(0, column - 1 - from).replace(/[^\t]/g, ' ')
  return [shown, `${indent.padEnd(column - 1 - from)}^`]
}

// Places of keys and values in a JSON text.

/** A key, or an index of a list. */
export type Step = string | number

/** Offsets into the text. `key`: the beginning of the key, for a member of an object. */
interface JsonPlace {
  readonly key?: number
  readonly value: number
}

/** A repeated key of one object: the place of the second, and its path. */
interface DuplicateKey {
  readonly offset: number
  readonly steps: readonly Step[]
}

interface JsonPlaces {
  /** The place of the value at `steps`, or of the nearest value around it. Keys match without case. */
  readonly find: (steps: readonly Step[]) => JsonPlace
  readonly duplicates: readonly DuplicateKey[]
}

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g

/** An object or a list that is not closed yet. `seen`: keys of an object; `key`: of the member that is read. */
interface Open {
  readonly steps: readonly Step[]
  readonly seen?: Set<string>
  key?: { readonly name: string; readonly at: number } | undefined
  index: number
}

/** `text` must be JSON (JSON.parse takes it). */
export function placesOf(text: string): JsonPlaces {
  const places = new Map<string, JsonPlace>()
  const duplicates: DuplicateKey[] = []
  const open: Open[] = []
  for (const { 0: token, index: at } of text.matchAll(tokens)) {
    const around = open.at(-1)
    if (token === ':') continue
    if (token === '}' || token === ']') open.pop()
    else if (token === ',' && around !== undefined) {
      around.index += 1
      around.key = undefined
    } else if (around?.seen !== undefined && around.key === undefined) {
      const name = JSON.parse(token) as string
      if (around.seen.has(name)) duplicates.push({ offset: at, steps: [...around.steps, name] })
      around.seen.add(name)
      around.key = { name, at }
    } else {
      const key = around?.key
      const steps = around === undefined ? [] : [...around.steps, key?.name ?? around.index]
      places.set(nameOf(steps), key === undefined ? { value: at } : { key: key.at, value: at })
      if (token === '{') open.push({ steps, seen: new Set(), index: 0 })
      if (token === '[') open.push({ steps, index: 0 })
    }
  }
  return { duplicates, find: (steps) => nearest(places, steps) }
}

function nearest(places: ReadonlyMap<string, JsonPlace>, steps: readonly Step[]): JsonPlace {
  for (let length = steps.length; length > 0; length--) {
    const place = places.get(nameOf(steps.slice(0, length)))
    if (place !== undefined) return place
  }
  return places.get('') ?? { value: 0 }
}

function nameOf(steps: readonly Step[]): string {
  return steps.map((step) => `/${String(step).toLowerCase()}`).join('')
}

/** `plugins[0].ipam.subnet`, control characters escaped. */
export function keyPathOf(steps: readonly Step[]): string {
  return printable(keyPath(steps)).replaceAll('\n', '\\n')
}

export function shown(value: unknown): string {
  return printable(quote(value))
}

export function valueAt(value: unknown, steps: readonly Step[]): unknown {
  let at = value
  for (const step of steps) at = (at as Readonly<Record<Step, unknown>> | undefined | null)?.[step]
  return at
}
