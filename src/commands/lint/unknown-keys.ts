// SPDX-License-Identifier: Apache-2.0
// Unknown keys: misspelt, in the wrong place, or of another plugin.

import type { KeyShape } from '../../cni/fields.ts'
import { isObject } from '../../cni/json.ts'
import { isNegationOf, nearestWord } from '../nearest-word.ts'
import { type Found, keyPathOf, type Step } from './finding.ts'

/** Whether a key is a common form of a comment. */
export function isRemark(key: string): boolean {
  return /^(_|#|\/\/|\$)|comment$/i.test(key)
}

export function shapeOf(names: readonly string[], nested: Readonly<Record<string, KeyShape>> = {}): KeyShape {
  return { keys: new Map(names.map((name) => [name.toLowerCase(), { name, shape: nested[name] }])) }
}

/** The same shape with more keys, whose values are not examined. */
export function withKeys(shape: KeyShape, names: readonly string[]): KeyShape {
  return { keys: new Map([...(shapeOf(names).keys ?? []), ...(shape.keys ?? [])]) }
}

/**
 * Every key in `value` that `shape` lacks. `whole` is the shape of the whole plugin, to find the right place of a key;
 * `what` is the reader's name, as in "trestle has no such key".
 */
export function unknownKeys(value: unknown, steps: readonly Step[], about: About): readonly Found[] {
  const { shape } = about
  if (shape === undefined) return []
  if (Array.isArray(value)) {
    return value.flatMap((each, at) => unknownKeys(each, [...steps, at], { ...about, shape: shape.items }))
  }
  if (!isObject(value) || shape.keys === undefined) return []
  const { keys } = shape
  return Object.entries(value).flatMap(([key, child]) => {
    const known = keys.get(key.toLowerCase())
    if (known !== undefined) return unknownKeys(child, [...steps, key], { ...about, shape: known.shape })
    return isRemark(key) ? [] : [unknownKey([...steps, key], key, { ...about, shape })]
  })
}

interface About {
  readonly shape: KeyShape | undefined
  readonly whole: KeyShape
  readonly what: string
}

export function unknownKey(steps: readonly Step[], key: string, { shape, whole, what }: About): Found {
  const names = [...(shape?.keys?.values() ?? [])].map(({ name }) => name)
  const meant = nearestWord(key, names)
  const elsewhere = placesOfKey(whole, key).toSorted((a, b) => a.split('.').length - b.split('.').length)
  const message = `${what} has no key ${keyPathOf(steps)}`
  if (meant !== undefined && isNegationOf(key, meant)) {
    const cure = `write "${meant}" with the opposite value: false for true`
    return { id: 'unknown-key', message: `${message}; it has "${meant}"`, cure, steps }
  }
  if (meant !== undefined) {
    return { id: 'unknown-key', message: `${message}; did you mean "${meant}"?`, cure: `write "${meant}"`, steps }
  }
  const [place] = elsewhere
  if (place === undefined) return { id: 'unknown-key', message, steps }
  return { id: 'unknown-key', message: `${message}; it belongs to ${place}`, cure: `move it into ${place}`, steps }
}

/** The paths of the objects, from the whole on, that have the key. */
function placesOfKey(shape: KeyShape | undefined, key: string, path = 'the plugin'): readonly string[] {
  if (shape?.items !== undefined) return placesOfKey(shape.items, key, path)
  const entries = [...(shape?.keys?.values() ?? [])]
  const here = shape?.keys?.has(key.toLowerCase()) === true ? [path] : []
  return [...here, ...entries.flatMap((entry) => placesOfKey(entry.shape, key, below(path, entry.name)))]
}

function below(path: string, name: string): string {
  return path === 'the plugin' ? name : `${path}.${name}`
}
