// SPDX-License-Identifier: Apache-2.0
// JSON from outside: bounded, and with keys that are matched as Go's decoder matches them.

import { CniError, Code, quote } from './errors.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** Deeper than any configuration; bounds the recursion of what reads it. */
const deepest = 64

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function asObject(value: unknown): JsonObject {
  return isObject(value) ? value : {}
}

/** The object of a JSON text, or undefined. Throws nothing. */
export function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** stdin as one JSON object. Throws CniError 6. */
export function parseConfig(stdin: string): JsonObject {
  const value = parse(stdin)
  if (!isObject(value)) throw undecodable('not-an-object', `${quote(value)} is not an object`)
  if (isTooDeep(value, deepest)) throw undecodable('json-too-deep', `nested more than ${deepest} levels deep`)
  return value
}

function parse(text: string): unknown {
  if (text.trim() === '') throw undecodable('not-json', 'stdin is empty')
  if (text.startsWith('\ufeff')) throw undecodable('not-json', 'it begins with a byte order mark (U+FEFF)')
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw undecodable('not-json', (cause as Error).message)
  }
}

function isTooDeep(value: unknown, left: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return left === 0 || Object.values(value).some((child) => isTooDeep(child, left - 1))
}

/** The first words are those of the reference plugins (cni pkg/skel/skel.go). */
function undecodable(id: string, what: string): CniError {
  return new CniError(Code.decodingFailure, id, `error unmarshall network config: ${what}`, {
    details:
      'stdin must hold the network configuration as one JSON object { ... }; `trestle lint FILE` shows the place',
  })
}

/** The value of `name`: the exact key, else the last one that differs only in case. */
export function lookUp(object: JsonObject, name: string): unknown {
  if (Object.hasOwn(object, name)) return object[name]
  const lower = name.toLowerCase()
  const key = Object.keys(object).findLast((candidate) => candidate.toLowerCase() === lower)
  return key === undefined ? undefined : object[key]
}

/** The object without keys whose value is undefined: JSON text and records have no key without a value. */
export function defined<T extends object>(object: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}
