// SPDX-License-Identifier: Apache-2.0
// The shape of values on disk. Every JSON file of the state says its format; additions keep the number: each release
// acts on the fields that it knows, and keeps the rest for the release that wrote them.
// Every call reads and writes records, and nobody is told what is wrong with one: a test of the shape will do. Schemas
// of zod, which say it, cost 3 % of the instructions of a DEL. The type of a value is read off its kind.

import { isDeepStrictEqual } from 'node:util'
import { isObject, parseObject } from '../cni/json.ts'

/** What this release writes. */
export const format = 1

/** What a T is on disk. */
interface Kind<T> {
  readonly accepts: (value: unknown) => boolean
  /** The value with parts left out, or filled in, that were not as we write them. Absent: as it is. */
  readonly read?: ((value: unknown) => unknown) | undefined
  /** Of an object. */
  readonly fields?: Fields
  /** For the compiler alone. */
  readonly of?: T
}

type Fields = Readonly<Record<string, Kind<unknown>>>

export type Of<K> = K extends { readonly of?: infer T } ? Exclude<T, undefined> : never

type MayLack<F extends Fields> = {
  [N in keyof F]: F[N] extends Kind<infer T> ? (undefined extends T ? N : never) : never
}[keyof F]

type ObjectOf<F extends Fields> = Flat<
  { readonly [N in Exclude<keyof F, MayLack<F>>]: Of<F[N]> } & { readonly [N in MayLack<F>]?: Of<F[N]> }
>

type Flat<T> = { [N in keyof T]: T[N] }

/** A kind for every field of T. */
export type FieldsOf<T> = { readonly [K in keyof T]-?: object extends Pick<T, K> ? Kind<T[K] | undefined> : Kind<T[K]> }

/** An object with these fields, and whatever another release has added. */
export function object<const F extends Fields>(fields: F): Kind<ObjectOf<F>> {
  const isAsItIs = Object.values(fields).every(({ read }) => read === undefined)
  return {
    fields,
    accepts: (value) => isObject(value) && Object.entries(fields).every(([name, kind]) => kind.accepts(value[name])),
    read: isAsItIs ? undefined : (value) => readFields(fields, value as object),
  }
}

function readFields(fields: Fields, value: object): object {
  const copy = { ...value } as Record<string, unknown>
  for (const [name, { read }] of Object.entries(fields)) {
    const each = read === undefined ? copy[name] : read(copy[name])
    if (each === undefined) delete copy[name]
    else copy[name] = each
  }
  return copy
}

export function only<T>(accepts: (value: unknown) => boolean): Kind<T> {
  return { accepts }
}

export function optional<T>({ accepts, read, fields }: Kind<T>): Kind<T | undefined> {
  return {
    accepts: (value) => value === undefined || accepts(value),
    ...(read && { read: (value: unknown) => (value === undefined ? value : read(value)) }),
    ...(fields && { fields }),
  }
}

const anything = () => true

/** A part that is missing where it has not the shape that we write: the rest of the file holds without it. */
export function believed<T>(kind: Kind<T>): Kind<T | undefined> {
  return { ...kind, accepts: anything, read: (value) => decoded(kind, value) }
}

/** A value that is `otherwise` where it is missing or of another kind. */
export function or<T>(kind: Kind<T>, otherwise: T): Kind<T> {
  return { accepts: anything, read: (value) => decoded(kind, value) ?? otherwise }
}

export function listOf<T>({ accepts, read }: Kind<T>): Kind<readonly T[]> {
  return {
    accepts: (value) => Array.isArray(value) && value.every(accepts),
    ...(read && { read: (list: unknown) => (list as readonly unknown[]).map(read) }),
  }
}

export const text = only<string>((value) => typeof value === 'string')
export const texts = listOf(text)
export const textMap = only<Readonly<Record<string, string>>>(
  (value) => isObject(value) && Object.values(value).every((each) => typeof each === 'string'),
)
export const number = only<number>(Number.isFinite)
export const isTrue = only<true>((value) => value === true)
const boolean = only<boolean>((value) => typeof value === 'boolean')
export const optionalText = optional(text)
export const optionalTexts = optional(texts)
export const optionalNumber = optional(number)
export const optionalFlag = optional(boolean)

/** Off where it is missing: another release has no such switch. */
export const flag = optionalFlag as Kind<boolean>

/** Of a union of words, any text: another release knows others, and whoever acts on it looks. */
export function wordOf<T extends string>(): Kind<T> {
  return text as Kind<never>
}

/** What an unknown value is as `kind`; undefined where it has another shape. */
export function decoded<T>({ accepts, read }: Kind<T>, value: unknown): T | undefined {
  if (!accepts(value)) return undefined
  return (read === undefined ? value : read(value)) as T
}

/** The format of a file's JSON text, and the rest of it. */
export function parsedFile(json: string): { readonly found: unknown; readonly parts: object } {
  const { format: found, ...parts } = parseObject(json) ?? {}
  return { found, parts }
}

/** A file's value; undefined where it is no JSON, has another shape, or another format. */
export function decodeFile<T>(kind: Kind<T>, json: string): T | undefined {
  const { found, parts } = parsedFile(json)
  return found === format ? decoded(kind, parts) : undefined
}

export function encodeFile(value: object): string {
  return JSON.stringify({ format, ...value })
}

/** `value` with what only another release knows of `before`, which it takes the place of. */
export function withUnknown<T extends object>({ fields = {} }: Kind<T>, before: object, value: T): T {
  const kept = Object.entries(before).flatMap(([name, each]): [string, unknown][] => {
    if (!Object.hasOwn(fields, name)) return [[name, each]]
    const now = (value as Record<string, unknown>)[name]
    const kind = fields[name]
    return kind?.fields && isObject(each) && isObject(now) ? [[name, withUnknown(kind as Kind<object>, each, now)]] : []
  })
  return kept.length === 0 ? value : { ...value, ...Object.fromEntries(kept) }
}

/** Whether the values are the same as far as this release knows them. */
export function isSameAsKnown<T extends object>(kind: Kind<T>, a: T | undefined, b: T | undefined): boolean {
  return isDeepStrictEqual(a && knownOf(kind, a), b && knownOf(kind, b))
}

function knownOf({ fields = {} }: Kind<unknown>, value: object): object {
  const known = Object.entries(value).filter(([name]) => Object.hasOwn(fields, name))
  return Object.fromEntries(
    known.map(([name, each]) => {
      const kind = fields[name]
      return [name, kind?.fields && isObject(each) ? knownOf(kind, each) : each]
    }),
  )
}
