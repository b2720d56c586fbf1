// SPDX-License-Identifier: Apache-2.0
// How a type of ours stands on disk: a table of its fields, each with its name and its kind there. Names on disk stay
// as they are when a field gets another one: what another release wrote is read, and it reads what we write.
// Every call reads and writes records, and nobody is told what is wrong with one: a test of the shape will do. Schemas
// of zod, which say it, cost 3 % of the instructions of a DEL. What is the same on both sides is not copied.

import { asObject, isObject } from '../../cni/json/json-object.ts'

type Turn = (value: unknown) => unknown
type Accepts = (value: unknown) => boolean

/** What a T is on disk. `read` and `write` turn one into the other, where they differ. */
export interface Stored<T> {
  readonly accepts: Accepts
  readonly read?: Turn | undefined
  readonly write?: Turn | undefined
  /** For the compiler alone. */
  readonly of?: T
}

/** Every field of T: its name on disk and its kind. */
export type StoredFields<T> = {
  readonly [K in keyof T]-?: readonly [
    name: string,
    kind: object extends Pick<T, K> ? Stored<T[K] | undefined> : Stored<T[K]>,
  ]
}

type Field = readonly [name: string, kind: Stored<unknown>]
type Fields = Readonly<Record<string, Field>>

/** An object with these fields. Those that no field names are kept as they are, for the release that wrote them. */
export function stored<T extends object>(fields: StoredFields<T>): Stored<T> {
  const table = fields as unknown as Fields
  return {
    accepts: (value) => isObject(value) && Object.values(table).every(([name, kind]) => kind.accepts(value[name])),
    read: turned(table, 'read'),
    write: turned(table, 'write'),
  }
}

/**
 * A name that only the other side uses is left out: what has it on this side would pass for a field, unchecked. Nothing
 * but `table` is kept for later: each array of these tables is read back at the start of every call.
 */
function turned(table: Fields, way: 'read' | 'write'): Turn | undefined {
  const isSame = ([field, [name, kind]]: [string, Field]) => field === name && kind[way] === undefined
  if (Object.entries(table).every(isSame)) return undefined
  return (value) => {
    const object = value as Readonly<Record<string, unknown>>
    const known = new Set<string>()
    const entries: [string, unknown][] = []
    for (const [field, [name, kind]] of Object.entries(table)) {
      known.add(field).add(name)
      const each = object[way === 'read' ? name : field]
      const turn = kind[way]
      const turnedEach = turn === undefined ? each : turn(each)
      if (turnedEach !== undefined) entries.push([way === 'read' ? field : name, turnedEach])
    }
    for (const [name, each] of Object.entries(object)) if (!known.has(name)) entries.push([name, each])
    return Object.fromEntries(entries)
  }
}

/** A value for which `accepts` is true. */
export function only<T>(accepts: Accepts): Stored<T> {
  return { accepts }
}

/** A field that may be missing. */
export function optional<T>({ accepts, read, write }: Stored<T>): Stored<T | undefined> {
  const there = (turn: Turn | undefined): Turn | undefined => turn && ((value) => value && turn(value))
  return { accepts: (value) => value === undefined || accepts(value), read: there(read), write: there(write) }
}

const anything = () => true

/** A part that is missing where it has not the shape that we write: the rest of the file holds without it. */
export function believed<T>(kind: Stored<T>): Stored<T | undefined> {
  return { ...optional(kind), accepts: anything, read: (value) => decoded(kind, value) }
}

/** A value that is `otherwise` where it is missing or of another kind. */
export function or<T>(kind: Stored<T>, otherwise: T): Stored<T> {
  return { accepts: anything, read: (value) => decoded(kind, value) ?? otherwise, write: kind.write }
}

export function listOf<T>({ accepts, read, write }: Stored<T>): Stored<readonly T[]> {
  const each = (turn: Turn | undefined): Turn | undefined => turn && ((list) => (list as readonly unknown[]).map(turn))
  return { accepts: (value) => Array.isArray(value) && value.every(accepts), read: each(read), write: each(write) }
}

/** One word in place of an object. */
export function wordOr<W extends string, T extends object>(word: W, kind: Stored<T>): Stored<W | T> {
  const object = (turn: Turn | undefined): Turn | undefined =>
    turn && ((value) => (value === word ? value : turn(value)))
  const accepts: Accepts = (value) => value === word || kind.accepts(value)
  return { accepts, read: object(kind.read), write: object(kind.write) }
}

/** One of several objects, told by their `kind`. */
export function byKind<T extends { readonly kind: string }>(
  kinds: {
    readonly [K in T['kind']]: Stored<Extract<T, { kind: K }>>
  },
): Stored<T> {
  const kindOf = (value: unknown) => new Map(Object.entries<Stored<T>>(kinds)).get(String(asObject(value)['kind']))
  const turn =
    (way: 'read' | 'write'): Turn =>
    (value) =>
      kindOf(value)?.[way]?.(value) ?? value
  return { accepts: (value) => kindOf(value)?.accepts(value) ?? false, read: turn('read'), write: turn('write') }
}

export const text = only<string>((value) => typeof value === 'string')
export const optionalText = optional(text)
export const texts = listOf(text)
export const optionalTexts = optional(texts)
export const textMap = only<Readonly<Record<string, string>>>(
  (value) => isObject(value) && Object.values(value).every((each) => typeof each === 'string'),
)
export const number = only<number>(Number.isFinite)
export const optionalNumber = optional(number)
export const optionalFlag = optional(only<boolean>((value) => typeof value === 'boolean'))
export const isTrue = only<true>((value) => value === true)

/** Off where it is missing: an older release had no such switch. */
export const flag = optionalFlag as Stored<boolean>

/** Of a union of words, any text: another release knows others, and whoever acts on it looks. */
export const word = text as Stored<never>
export const optionalWord = optionalText as Stored<never>

/** What an unknown value is as `kind`; undefined where it has another shape. */
export function decoded<T>({ accepts, read }: Stored<T>, value: unknown): T | undefined {
  if (!accepts(value)) return undefined
  return (read === undefined ? value : read(value)) as T
}

/** The value as it stands on disk. */
export function encoded<T>({ write }: Stored<T>, value: T): unknown {
  return write === undefined ? value : write(value)
}

/** A value of JSON text; undefined where it is none. */
export function parsedJson(json: string): unknown {
  try {
    return JSON.parse(json) as unknown
  } catch {
    return undefined
  }
}
