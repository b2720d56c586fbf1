// SPDX-License-Identifier: Apache-2.0
// JSON objects among values of unknown shape, and their keys.

import type * as z from 'zod/mini'
import { orElse } from './error.ts'

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {}
}

/** The value of a JSON text; undefined for what is no JSON. */
export function parsedJson(text: string): unknown {
  return orElse(() => JSON.parse(text) as unknown, undefined)
}

/** The object of a JSON text; undefined for another value or no JSON. */
export function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  const value = parsedJson(text)
  return isObject(value) ? value : undefined
}

// Keys of a configuration whatever their case: Go's JSON decoder, for which these configurations
// were written, matches keys exactly first and then without case (docs/design.md, "Decisions"; containerd sends
// `HostPort`). The known keys are read off the schema, so that they are written down once.

type Schema = z.core.$ZodType

/** The known keys of an object, or of the entries of a list. */
export interface KeyShape {
  /** By the key in lower case. */
  readonly keys?: ReadonlyMap<string, KnownKey>
  readonly items?: KeyShape
}

interface KnownKey {
  readonly name: string
  readonly shape: KeyShape | undefined
}

/** The keys that `schema` (a zod object, list, or optional of these) knows; undefined when it has none. */
export function keyShapeOf(schema: Schema): KeyShape | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod
  if (def.type === 'optional') return keyShapeOf(def.innerType as Schema)
  if (def.type === 'array') {
    const items = keyShapeOf(def.element as Schema)
    return items === undefined ? undefined : { items }
  }
  if (def.type !== 'object') return undefined
  const entries = Object.entries(def.shape as Readonly<Record<string, Schema>>)
  return {
    keys: new Map(entries.map(([name, child]) => [name.toLowerCase(), { name, shape: keyShapeOf(child) }])),
  }
}

/**
 * `value` with the known keys in their own spelling, in nested objects and lists too. Of two spellings
 * the exact one wins, else the last. `null` leaves the default, as in Go, so such a known key is
 * dropped. Unknown keys stay as they are; `__proto__` stays a key like any other.
 */
export function withKnownKeys(value: unknown, shape: KeyShape | undefined): unknown {
  if (shape === undefined) return value
  if (Array.isArray(value)) return shape.items === undefined ? value : value.map((v) => withKnownKeys(v, shape.items))
  if (shape.keys === undefined || !isObject(value)) return value
  const known = new Map<string, unknown>()
  for (const [key, child] of Object.entries(value)) {
    const match = shape.keys.get(key.toLowerCase())
    if (match === undefined) known.set(key, child)
    else if (key === match.name || !Object.hasOwn(value, match.name)) {
      if (child === null) known.delete(match.name)
      else known.set(match.name, withKnownKeys(child, match.shape))
    }
  }
  return Object.fromEntries(known)
}

/** The value of `name` in `object`: the exact key, else the last that differs in case only. */
export function lookUp(object: Readonly<Record<string, unknown>>, name: string): unknown {
  if (Object.hasOwn(object, name)) return object[name]
  const lower = name.toLowerCase()
  const key = Object.keys(object).findLast((candidate) => candidate.toLowerCase() === lower)
  return key === undefined ? undefined : object[key]
}

// Absent keys in place of undefined ones: what goes into a record or a result has no key without a value.

export function defined<T extends object>(object: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}
