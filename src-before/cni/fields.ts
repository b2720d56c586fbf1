// SPDX-License-Identifier: Apache-2.0
// The kinds of value a configuration has, as zod/mini schemas whose messages are `what|hint`, and
// the one function that applies a schema and turns its first complaint into an error of code 7.

import * as z from 'zod/mini'
import { formatCidr, networkOf, parseCidr } from './address.ts'
import { configError, hasControlCharacter, type KeyPath, notA, quote } from './error.ts'
import { isObject } from './json.ts'

// One call parses one configuration: compiling a parser for it costs more than it saves.
z.config({ jitless: true })

const BAR = '|'

/** A value for which `accepts` is true; `what` completes "is not ...", `hint` says what to use. */
export function field<T>(what: string, hint: string, accepts: (value: unknown) => boolean) {
  return z.optional(z.custom<T>(accepts, `${what}${BAR}${hint}`))
}

/** The same of a value whose type may be right where the value is not: a whole number, or a word. */
export function typedField<T>(
  kind: 'number' | 'word',
  { what, hint }: { readonly what: string; readonly hint: string },
  accepts: (value: unknown) => boolean,
) {
  return field<T>(what, `${hint}${BAR}${kind}`, accepts)
}

/** What a message of these schemas says of the value that was found. Undefined for a message of another's. */
export function complaintOf(message: string, found: unknown) {
  const [what, hint, kind] = message.split(BAR)
  if (what === undefined || hint === undefined) return undefined
  const isOfType = kind === 'number' ? Number.isInteger(found) : kind === 'word' && isText(found)
  return { id: isOfType ? 'invalid-value' : 'wrong-type', what, hint } as const
}

export const flag = field<boolean>(
  'true or false',
  'use true or false, without quotes',
  (value) => typeof value === 'boolean',
)

/** Longer than any name, path or value of a real configuration: all of them go into records of 1 MiB at most. */
const LONGEST_TEXT = 8192

/** A string that can be put into a message or a file without changing its meaning. */
export function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LONGEST_TEXT && !hasControlCharacter(value)
}

const textHint = `use text in double quotes, at most ${LONGEST_TEXT} characters`

export const text = field<string>('a string without control characters', textHint, isText)

export const absolutePath = field<string>('an absolute path', 'use a path that starts with /', (value) => {
  return isText(value) && (value === '' || value.startsWith('/'))
})

/** A whole JSON number from `min` to `max`, both inclusive. */
export function integer(min: number, max: number, what = 'a whole number') {
  const hint = `use a number from ${min} to ${max}, without quotes`
  return typedField<number>('number', { what: `${what} from ${min} to ${max}`, hint }, (value) => {
    return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
  })
}

export const UINT32_MAX = 0xffff_ffff

export const uint32 = integer(0, UINT32_MAX)

export function oneOf<const T extends string>(words: readonly T[]) {
  const list = words.map((word) => JSON.stringify(word)).join(', ')
  return typedField<T>('word', { what: `one of ${list}`, hint: `use ${list}` }, (value) =>
    (words as readonly unknown[]).includes(value),
  )
}

/** Work grows with the square of some lists, and each entry ends up in the kernel: routes of one pod, say. */
const MOST_ENTRIES = 1024

/**
 * A list of at most `most` entries; every entry is checked by `entry`. Counted by a refinement, since zod's own check
 * of length also runs on what is no list and has a key `length`, and throws when that cannot become a number.
 */
export function list<T extends z.core.SomeType>(entry: T, most = MOST_ENTRIES) {
  const tooMany = `a list of at most ${most} entries${BAR}leave some of them out`
  return z
    .array(entry, `a list${BAR}use [ ... ]`)
    .check(z.refine((entries: readonly unknown[]) => entries.length <= most, tooMany))
}

/** A key that may be left out. Scalars made by `field` are so already. */
export const optional = z.optional

/** An object; keys it does not name are left out of the result. */
export function group<const T extends z.core.$ZodLooseShape>(shape: T) {
  return z.object(shape, `an object${BAR}use { ... }`)
}

/** An object whose keys that are not named are kept as they are. */
export function openGroup<const T extends z.core.$ZodLooseShape>(shape: T) {
  return z.looseObject(shape, `an object${BAR}use { ... }`)
}

export const texts = textsUpTo(MOST_ENTRIES)

export function textsUpTo(most: number) {
  return optional(list(z.custom<string>(isText, `a string without control characters${BAR}${textHint}`), most))
}

export const textMap = field<Readonly<Record<string, string>>>(
  'an object whose values are all strings',
  `use {"key": "value"}, numbers in quotes too, at most ${MOST_ENTRIES} keys`,
  isTextMap,
)

function isTextMap(value: unknown): boolean {
  if (!isObject(value)) return false
  const values = Object.values(value)
  // Tabs as well: the kernel prints several numbers with tabs between them, and such a value is what gets copied.
  const isValue = (entry: unknown) => typeof entry === 'string' && isText(entry.replaceAll('\t', ' '))
  return values.length <= MOST_ENTRIES && values.every(isValue)
}

export function valueAt(value: unknown, steps: KeyPath): unknown {
  let at = value
  for (const step of steps) at = (at as Readonly<Record<string | number, unknown>> | undefined | null)?.[step]
  return at
}

/** `value` as `schema` has it. Throws CniError invalidConfig for the first complaint. `base` is where `value` is. */
export function readAs<T extends z.core.$ZodType>(schema: T, value: unknown, base: KeyPath = []): z.output<T> {
  const parsed = z.safeParse(schema, value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  const steps = (issue?.path ?? []).map((step) => (typeof step === 'symbol' ? String(step) : step))
  const found = valueAt(value, steps)
  const path = [...base, ...steps]
  const complaint = complaintOf(issue?.message ?? '', found)
  if (complaint === undefined) throw configError(path, `${quote(found)} is not valid`, { id: 'wrong-type' })
  throw notA(path, found, complaint)
}

/** An IPv4 link carries packets of 68 bytes at least (RFC 791); 65535 is the longest IP packet. */
export const MIN_MTU = 68
export const MAX_MTU = 65_535

export function isMtu(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= MIN_MTU && Number(value) <= MAX_MTU
}

/** Prefixes without host bits, each once. Throws CniError invalidConfig. */
export function readCidrs(texts: readonly string[], path: KeyPath): readonly string[] {
  const cidrs = texts.map((text, index) => {
    const cidr = parseCidr(text)
    if (cidr !== undefined) return formatCidr(networkOf(cidr))
    const hint = 'use one like "10.0.0.0/8"'
    throw notA([...path, index], text, { id: 'prefix-invalid', what: 'a prefix in CIDR notation', hint })
  })
  return [...new Set(cidrs)]
}
