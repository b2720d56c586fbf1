// SPDX-License-Identifier: Apache-2.0
// The kinds of value that a configuration or a result has, as zod/mini schemas, and the one function that applies a
// schema. A schema's message is `what|hint|kind`: "is not <what>", what to use, and whether a value of the right type
// has a wrong value.

import * as z from 'zod/mini'
import { formatCidr, networkOf, parseCidr } from './addresses.ts'
import { type CniError, configError, hasControlCharacter, type KeyPath, notA, quote } from './errors.ts'
import { isObject } from './json.ts'

// One call reads one configuration: compiling a parser for it costs more than it saves.
z.config({ jitless: true })

type Schema = z.core.$ZodType

/** An optional value that `accepts` takes. `kind`: values of that type are wrong by their value, not by their type. */
export function field<T>(
  what: string,
  hint: string,
  accepts: (value: unknown) => boolean,
  kind: 'number' | 'word' | '' = '',
) {
  return z.optional(z.custom<T>(accepts, `${what}|${hint}|${kind}`))
}

export const flag = field<boolean>('true or false', 'use true or false, without quotes', (v) => typeof v === 'boolean')

/** Longer than any name, path or value of a real configuration. */
const longestText = 8192

export function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= longestText && !hasControlCharacter(value)
}

const textHint = `use text in double quotes, at most ${longestText} characters`

export const text = field<string>('a string without control characters', textHint, isText)

export const absolutePath = field<string>('an absolute path', 'use a path that starts with /', (value) => {
  return isText(value) && (value === '' || value.startsWith('/'))
})

/** A whole number from `min` to `max`, both inclusive. */
export function integer(min: number, max: number, what = 'a whole number') {
  const hint = `use a number from ${min} to ${max}, without quotes`
  const isInside = (value: unknown) => Number.isInteger(value) && Number(value) >= min && Number(value) <= max
  return field<number>(`${what} from ${min} to ${max}`, hint, isInside, 'number')
}

export const uint32Max = 0xffff_ffff
export const uint32 = integer(0, uint32Max)

/** An IPv4 link carries packets of 68 bytes at least (RFC 791); 65535 is the longest IP packet. */
export const leastMtu = 68
export const largestMtu = 65_535

export function isMtu(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= leastMtu && Number(value) <= largestMtu
}

export function oneOf<const T extends string>(words: readonly T[]) {
  const list = words.map((word) => JSON.stringify(word)).join(', ')
  return field<T>(`one of ${list}`, `use ${list}`, (value) => words.some((word) => word === value), 'word')
}

/** Work grows with the square of some lists, and each entry ends up in the kernel. */
const mostListed = 1024

/** A list of at most `most` entries, each of which `entry` takes. */
export function list<T extends z.core.SomeType>(entry: T, most = mostListed) {
  const tooMany = `a list of at most ${most} entries|leave some of them out`
  return z
    .array(entry, 'a list|use [ ... ]')
    .check(z.refine((entries: readonly unknown[]) => entries.length <= most, tooMany))
}

export const optional = z.optional

/** An object; keys that it does not name are left out. */
export function group<const T extends z.core.$ZodLooseShape>(shape: T) {
  return z.object(shape, 'an object|use { ... }')
}

/** An object whose other keys are kept: a chained plugin passes them on. */
export function openGroup<const T extends z.core.$ZodLooseShape>(shape: T) {
  return z.looseObject(shape, 'an object|use { ... }')
}

export function textsUpTo(most: number) {
  return optional(list(z.custom<string>(isText, `a string without control characters|${textHint}`), most))
}

export const texts = textsUpTo(mostListed)

export const textMap = field<Readonly<Record<string, string>>>(
  'an object whose values are all strings',
  `use {"key": "value"}, numbers in quotes too, at most ${mostListed} keys`,
  (value) => {
    if (!isObject(value)) return false
    // Tabs as well: the kernel prints several numbers with tabs between them, and people copy that.
    const isValue = (entry: unknown) => typeof entry === 'string' && isText(entry.replaceAll('\t', ' '))
    return Object.keys(value).length <= mostListed && Object.values(value).every(isValue)
  },
)

/** `value` as `schema` has it. `base`: where it stands. Throws CniError 7 for the first thing that is wrong. */
export function readAs<T extends Schema>(schema: T, value: unknown, base: KeyPath = []): z.output<T> {
  const parsed = z.safeParse(schema, value)
  if (parsed.success) return parsed.data
  throw complaint(parsed.error.issues[0], value, base)
}

/** What a schema says of a value, as the error of an ADD. */
export function complaint(issue: z.core.$ZodIssue | undefined, value: unknown, base: KeyPath): CniError {
  const steps = (issue?.path ?? []).map((step) => (typeof step === 'symbol' ? String(step) : step))
  let found = value
  for (const step of steps) found = (found as Readonly<Record<string | number, unknown>> | undefined | null)?.[step]
  const path = [...base, ...steps]
  const [what, hint, kind] = (issue?.message ?? '').split('|')
  if (what === undefined || hint === undefined)
    return configError(path, `${quote(found)} is not valid`, { id: 'wrong-type' })
  const isOfType = kind === 'number' ? Number.isInteger(found) : kind === 'word' && isText(found)
  return notA(path, found, { id: isOfType ? 'invalid-value' : 'wrong-type', what, hint })
}

/** Prefixes without host bits, each once. Throws CniError 7. */
export function readPrefixes(entries: readonly string[], path: KeyPath): readonly string[] {
  const prefixes = entries.map((entry, index) => {
    const cidr = parseCidr(entry)
    if (cidr !== undefined) return formatCidr(networkOf(cidr))
    const hint = 'use one like "10.0.0.0/8"'
    throw notA([...path, index], entry, { id: 'prefix-invalid', what: 'a prefix in CIDR notation', hint })
  })
  return [...new Set(prefixes)]
}

// Keys whatever their case: Go's JSON decoder, for which these configurations were written, matches a key exactly first
// and then without case; containerd sends `HostPort`. The known keys are read off the schema.

/** The known keys of an object by their lower case, or the shape of a list's entries. */
export interface KeyShape {
  readonly keys?: ReadonlyMap<string, { readonly name: string; readonly shape: KeyShape | undefined }>
  readonly items?: KeyShape
}

/** The keys that a schema (object, list, or an optional one) knows; undefined where it has none. */
export function keyShapeOf(schema: Schema): KeyShape | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod
  if (def.type === 'optional') return keyShapeOf(def.innerType as Schema)
  if (def.type === 'array') {
    const items = keyShapeOf(def.element as Schema)
    return items === undefined ? undefined : { items }
  }
  if (def.type !== 'object') return undefined
  const entries = Object.entries(def.shape as Readonly<Record<string, Schema>>)
  return { keys: new Map(entries.map(([name, child]) => [name.toLowerCase(), { name, shape: keyShapeOf(child) }])) }
}

/**
 * `value` with the known keys in their own spelling. Of two spellings the exact one wins, else the last. `null` leaves
 * the default, as in Go. Unknown keys stay, and `__proto__` is a key like any other.
 */
export function withKnownKeys(value: unknown, shape: KeyShape | undefined): unknown {
  if (shape === undefined) return value
  if (Array.isArray(value)) return value.map((entry) => withKnownKeys(entry, shape.items))
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
