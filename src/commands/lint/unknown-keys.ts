// SPDX-License-Identifier: Apache-2.0
// Keys that trestle does not have: misspelt, or in the wrong place.

import type { KeyShape } from '../../cni/fields.ts'
import { isObject, type JsonObject, lookUp } from '../../cni/json.ts'
import type { Step } from '../json-text.ts'
import { keyPathOf, shown } from '../json-text.ts'
import { nearestWord } from '../nearest-word.ts'
import type { Found } from './finding.ts'

/** Whether a key is a common form of a comment. */
export function isRemark(key: string): boolean {
  return /^(_|#|\/\/|\$)|comment$/i.test(key)
}

/** `whole`: the shape of the whole plugin, to find the right place of a key. `owner`: as in "trestle has no key". */
interface About {
  readonly shape: KeyShape | undefined
  readonly whole: KeyShape
  readonly owner: string
}

/** Every key in `value` that `shape` lacks. */
export function unknownKeys(value: unknown, steps: readonly Step[], about: About): readonly Found[] {
  const { shape } = about
  if (Array.isArray(value)) {
    return value.flatMap((each, at) => unknownKeys(each, [...steps, at], { ...about, shape: shape?.items }))
  }
  if (!isObject(value) || shape?.keys === undefined) return []
  const found: (readonly Found[])[] = []
  for (const [key, child] of Object.entries(value)) {
    const known = shape.keys.get(key.toLowerCase())
    if (known !== undefined) found.push(unknownKeys(child, [...steps, key], { ...about, shape: known.shape }))
    else if (!isRemark(key)) found.push([unknownKey([...steps, key], about)])
  }
  return found.flat()
}

export function unknownKey(steps: readonly Step[], { shape, whole, owner }: About): Found {
  const key = String(steps.at(-1))
  const message = `${owner} has no key ${keyPathOf(steps)}`
  const meant = nearestWord(
    key,
    [...(shape?.keys?.values() ?? [])].map(({ name }) => name),
  )
  if (meant !== undefined) {
    return { id: 'unknown-key', message: `${message}; did you mean "${meant}"?`, cure: `write "${meant}"`, steps }
  }
  const [place] = placesOfKey(whole, key).toSorted((a, b) => a.split('.').length - b.split('.').length)
  if (place === undefined) return { id: 'unknown-key', message, steps }
  return { id: 'unknown-key', message: `${message}; it belongs to ${place}`, cure: `move it into ${place}`, steps }
}

/** The paths of the objects that have the key. */
function placesOfKey(shape: KeyShape | undefined, key: string, path = ''): readonly string[] {
  if (shape?.items !== undefined) return placesOfKey(shape.items, key, path)
  const places = shape?.keys?.has(key.toLowerCase()) === true ? [path === '' ? 'the plugin' : path] : []
  for (const { name, shape: inner } of shape?.keys?.values() ?? []) {
    places.push(...placesOfKey(inner, key, path === '' ? name : `${path}.${name}`))
  }
  return places
}

/** Keys of a list that are true or false. */
const switches = ['disableCheck', 'disableGC', 'loadOnlyInlinedPlugins']
/** nerdctl finds its networks by two of these, podman keeps labels in `args`. */
const listKeys = [...['cniVersion', 'cniVersions', 'name', 'plugins'], ...['nerdctlID', 'nerdctlLabels', 'args']]

/** The keys of a list beside `plugins`, which reach no plugin. */
export function faultyListKeys(root: JsonObject): readonly Found[] {
  // A plugin in the place of a list is one finding.
  if (root['plugins'] === undefined && lookUp(root, 'type') !== undefined) return []
  const names = [...listKeys, ...switches]
  const shape = { keys: new Map(names.map((name) => [name.toLowerCase(), { name, shape: undefined }])) }
  const found: Found[] = []
  for (const [key, value] of Object.entries(root)) {
    if (!names.includes(key) && !isRemark(key)) {
      const unknown = unknownKey([key], { shape, whole: {}, owner: 'a list' })
      // Other tools keep their own data in a list: only a likely misspelling is a warning.
      found.push(unknown.cure === undefined ? { ...unknown, severity: 'note' } : unknown)
    }
    // libcni takes the words "true" and "false" as well.
    if (switches.includes(key) && !/^(true|false)$/i.test(String(value))) {
      const message = `${key}: ${shown(value)} is not true or false`
      found.push({ id: 'wrong-type', message, cure: 'use true or false', steps: [key] })
    }
  }
  return found
}
