// SPDX-License-Identifier: Apache-2.0
// Places of keys and values in a JSON text, and the keys that JSON.parse hides.

type PathStep = string | number

/** Offsets into the text. `key`: the beginning of the key, for a member of an object. */
interface JsonPlace {
  readonly key?: number
  readonly value: number
}

/** A repeated key of one object: the place of the second, and its path. */
interface DuplicateKey {
  readonly offset: number
  readonly steps: readonly PathStep[]
}

export interface JsonPlaces {
  /** The place of the value at `steps`, or of the nearest value around it. Keys match without case. */
  readonly find: (steps: readonly PathStep[]) => JsonPlace
  readonly duplicates: readonly DuplicateKey[]
}

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g

/** An object or a list that is not closed yet. `seen`: keys of an object; `key`: of the member that is read. */
interface Open {
  readonly steps: readonly PathStep[]
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

function nearest(places: ReadonlyMap<string, JsonPlace>, steps: readonly PathStep[]): JsonPlace {
  for (let length = steps.length; length > 0; length--) {
    const place = places.get(nameOf(steps.slice(0, length)))
    if (place !== undefined) return place
  }
  return places.get('') ?? { value: 0 }
}

function nameOf(steps: readonly PathStep[]): string {
  return steps.map((step) => `/${String(step).toLowerCase()}`).join('')
}
