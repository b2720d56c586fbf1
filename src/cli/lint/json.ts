// SPDX-License-Identifier: Apache-2.0
// Places of keys and values in a JSON text.

import { printable } from '../../cni/model/error.ts'
import { keyPath, quote } from '../../cni/model/invalid-config.ts'

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

export interface JsonPlaces {
  /** The place of the value at `steps`, or of the nearest value around it. Keys match without case. */
  readonly find: (steps: readonly Step[]) => JsonPlace
  readonly duplicates: readonly DuplicateKey[]
}

const space = /[ \t\r\n]*/y
const token = /"(?:[^"\\]|\\.)*"|[^\s,\]}:]+/y

/** `text` must be JSON (JSON.parse takes it), nested at most a few hundred levels deep. */
export function placesOf(text: string): JsonPlaces {
  const places = new Map<string, JsonPlace>()
  const duplicates: DuplicateKey[] = []

  const skip = (at: number): number => past(space, text, at)
  /** Records the place of the value at `at`; returns the end of the value. */
  const walk = (at: number, steps: readonly Step[], key?: number): number => {
    places.set(nameOf(steps), key === undefined ? { value: at } : { key, value: at })
    if (text[at] === '{') return members(at, steps)
    return text[at] === '[' ? items(at, steps) : past(token, text, at)
  }
  const members = (open: number, steps: readonly Step[]): number => {
    const seen = new Set<string>()
    let at = skip(open + 1)
    while (text[at] === '"') {
      const keyEnd = past(token, text, at)
      const name = JSON.parse(text.slice(at, keyEnd)) as string
      if (seen.has(name)) duplicates.push({ offset: at, steps: [...steps, name] })
      seen.add(name)
      at = afterValue(walk(skip(skip(keyEnd) + 1), [...steps, name], at))
    }
    return at + 1
  }
  const items = (open: number, steps: readonly Step[]): number => {
    let at = skip(open + 1)
    for (let index = 0; text[at] !== ']' && at < text.length; index++) at = afterValue(walk(at, [...steps, index]))
    return at + 1
  }
  const afterValue = (end: number): number => {
    const at = skip(end)
    return text[at] === ',' ? skip(at + 1) : at
  }

  walk(skip(0), [])
  return { duplicates, find: (steps) => nearest(places, steps) }
}

function past(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return at + (pattern.exec(text)?.[0].length ?? 0)
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
