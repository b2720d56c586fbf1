// SPDX-License-Identifier: Apache-2.0
// Keys and values of the upstream plugins, by the table in plugins.json: types as Go unmarshals them, bounds and words
// as the plugins check them. Values of the keys that every plugin has are those of libcni (types.PluginConf).

import type { KeyShape } from '../../cni/fields.ts'
import { isObject, lookUp } from '../../cni/json.ts'
import { nearestWord } from '../nearest-word.ts'
import { type Found, keyPathOf, type Step, shown } from './finding.ts'
import type { PluginEntry } from './list.ts'
import table from './plugins.json' with { type: 'json' }

type Fields = Readonly<Record<string, unknown>>

/** Keys of an object, with blanks between, by the kind of their values. */
type Keys = Readonly<Record<string, string>>

interface Row {
  readonly role?: string
  readonly keys: Keys
  /** Whether the plugin refuses an ADD without the type of an IPAM plugin; others then give no address. */
  readonly needsIpam?: true
}

const rows = new Map(Object.entries(table.plugins) as [string, Row][])
const ipams = new Map<unknown, Keys>(Object.entries(table.ipam))
const nested = new Map<string, unknown>(Object.entries(table.nested))

function kindsOf(keys: Keys): readonly (readonly [key: string, kind: string])[] {
  return Object.entries(keys).flatMap(([kind, names]) => names.split(' ').map((name) => [name, kind] as const))
}

/** Keys of every plugin: CNI spec 1.1.0, section 1, and the keys that a runtime adds. */
export const commonKeys: readonly string[] = kindsOf(table.every).map(([key]) => key)

function typesOf(role: string): readonly string[] {
  return [...rows].flatMap(([type, row]) => (row.role === role ? [type] : []))
}

/** Plugins that make the interface, and plugins that work on an earlier plugin's interface. */
export const [mainTypes, chainedTypes] = [typesOf('main'), typesOf('chained')]

/** The shape of an object, or of the entries of a list; `own`: shapes of keys that the table does not nest. */
function shapeOf(value: unknown, own: Readonly<Record<string, KeyShape | undefined>> = {}): KeyShape | undefined {
  if (Array.isArray(value)) return { items: shapeOf(value[0]) ?? {} }
  if (value === undefined) return undefined
  const known = kindsOf(value as Keys).map(([name]) => {
    return [name.toLowerCase(), { name, shape: own[name] ?? shapeOf(nested.get(name)) }] as const
  })
  return { keys: new Map(known) }
}

export function isKnownType(type: unknown): boolean {
  return rows.has(String(type))
}

/** The keys of an upstream plugin with this IPAM plugin; undefined for any other plugin. */
export function upstreamShape(type: string, ipamType: unknown): KeyShape | undefined {
  const row = rows.get(type)
  if (row === undefined) return undefined
  const ipam = shapeOf(ipams.get(ipamType))
  const keys = [...(shapeOf(table.every)?.keys ?? []), ...(shapeOf(row.keys, { ipam })?.keys ?? [])]
  return { keys: new Map(keys) }
}

/** Addresses in `ipam` without a plugin to give them. */
export function ipamTypeMissing({ conf, steps }: PluginEntry, type: string): readonly Found[] {
  const ipam = lookUp(conf, 'ipam')
  if (!mainTypes.includes(type) || !isObject(ipam)) return []
  const keys = Object.keys(ipam).filter((key) => key.toLowerCase() !== 'type')
  if (isSet(ipam, 'type') || keys.length === 0) return []
  const message = `ipam has ${shown(keys[0])} and no type: ${type} reads none of it`
  const meant = keys.find((key) => nearestWord(key, ['type']) !== undefined)
  const cure = meant === undefined ? undefined : `write "type" for ${shown(meant)}`
  const found: Found = { id: 'ipam-type-missing', message, cure, steps: [...steps, 'ipam'] }
  if (rows.get(type)?.needsIpam !== true) return [found]
  return [{ ...found, severity: 'error', cause: `${type} asks a plugin without a name: ADD is refused` }]
}

/** The type of a value. `isType`: Go can read it; `isValid`: the plugin or the kernel takes it. */
interface Kind {
  readonly what: string
  readonly isType: (value: unknown) => boolean
  readonly isValid?: (value: never) => boolean
  /** For a value of another type; `bounded`: for a value out of bounds. */
  readonly cure: string
  readonly bounded?: string
}

const isText = (value: unknown): value is string => typeof value === 'string'

const named: Readonly<Record<string, Kind>> = {
  flag: {
    what: 'true or false',
    isType: (value) => typeof value === 'boolean',
    cure: 'use true or false, without quotes',
  },
  text: { what: 'text', isType: isText, cure: 'use text in quotes' },
  texts: {
    what: 'a list of texts',
    isType: (value) => Array.isArray(value) && value.every(isText),
    cure: 'use [ "…", "…" ]',
  },
  settings: {
    what: 'an object of texts',
    isType: (value) => isObject(value) && Object.values(value).every(isText),
    cure: 'put every value in quotes, numbers as well',
  },
  object: { what: 'an object', isType: isObject, cure: 'use { … }' },
  // IFNAMSIZ of the kernel is 16 with the end of the text.
  link: {
    what: 'a name of an interface: 1 to 15 bytes, without /, : and blanks',
    isType: isText,
    isValid: (value: string) => value === '' || (Buffer.byteLength(value) <= 15 && !/[/:\s]/.test(value)),
    cure: 'use a shorter name, or leave it out',
  },
  // The kernel's bounds: 68 bytes for IPv4 at least; 0 leaves it to the plugin.
  mtu: {
    what: 'an MTU: 0, or 68 to 65535 bytes',
    isType: (value) => Number.isInteger(value),
    isValid: (value: number) => value === 0 || (value >= 68 && value <= 65_535),
    cure: 'use a number without quotes, 1500 as a rule, or leave it out',
    bounded: "use the uplink's, 1500 as a rule, or leave it out",
  },
}

/** A kind by its word in the table: `0..31` is a range with its unit behind it, `a|b` are words. */
function kindOf(word: string): Kind | undefined {
  const [, low, high, unit = ''] = /^(\d+)\.\.(\d+)(.*)$/.exec(word) ?? []
  if (low !== undefined && high !== undefined) return range(Number(low), Number(high), unit)
  if (!word.includes('|')) return named[word]
  const allowed = word.split('|')
  const quoted = allowed.map((each) => `"${each}"`)
  const isValid = (value: string) => value === '' || allowed.includes(value)
  return { what: `one of ${quoted.join(', ')}`, isType: isText, isValid, cure: `use ${quoted.join(' or ')}` }
}

function range(low: number, high: number, unit: string): Kind {
  return {
    what: `a whole number from ${low} to ${high}${unit}`,
    isType: (value) => Number.isInteger(value),
    isValid: (value: number) => value >= low && value <= high,
    cure: 'use a number without quotes',
    bounded: `use a number from ${low} to ${high}, or leave it out`,
  }
}

/** A null is an absent value, as in Go. */
function valueProblem(value: unknown, word: string, steps: readonly Step[]): readonly Found[] {
  const kind = kindOf(word)
  if (kind === undefined || value === undefined || value === null) return []
  const message = `${keyPathOf(steps)}: ${shown(value)} is not ${kind.what}`
  if (!kind.isType(value)) return [{ id: 'wrong-type', message, cure: kind.cure, steps, isAboutValue: true }]
  if (kind.isValid === undefined || kind.isValid(value as never)) return []
  return [{ id: 'invalid-value', message, cure: kind.bounded ?? kind.cure, steps, isAboutValue: true }]
}

function problemsOf(conf: unknown, keys: Keys, steps: readonly Step[]): readonly Found[] {
  if (!isObject(conf)) return []
  return kindsOf(keys).flatMap(([key, word]) => valueProblem(lookUp(conf, key), word, [...steps, key]))
}

export function valueProblems({ conf, steps }: PluginEntry, type: string): readonly Found[] {
  return problemsOf(conf, rows.get(type)?.keys ?? {}, steps)
}

/** Values that libcni reads of every plugin: a wrong type makes Go refuse the whole file. */
export function libcniProblems({ conf, steps }: PluginEntry): readonly Found[] {
  const [ipam, dns] = [lookUp(conf, 'ipam'), lookUp(conf, 'dns')]
  const found = [
    ...problemsOf(conf, { object: 'capabilities ipam dns' }, steps),
    ...problemsOf(ipam, { text: 'type' }, [...steps, 'ipam']),
    ...problemsOf(dns, table.nested.dns, [...steps, 'dns']),
  ]
  return found.map((each) => ({ ...each, cause: 'libcni refuses the whole file: "error parsing configuration"' }))
}

function isSet(conf: Fields, key: string): boolean {
  const value = lookUp(conf, key)
  return value !== undefined && value !== null && value !== '' && value !== false
}

type PathFound = Found & { readonly cause: string; readonly cure: string }

/** A path in the place of a file's name (pkg/invoke/find.go, FindInPath); undefined for a name. */
export function pathAsType(type: unknown, steps: readonly Step[]): PathFound | undefined {
  if (typeof type !== 'string' || !type.includes('/')) return undefined
  const name = type.split('/').findLast((part) => part !== '') ?? ''
  const message = `${keyPathOf(steps)}: ${shown(type)} is a path, and has to be the name of a file`
  const why = 'runtimes look for it in their directories of plugins: "invalid plugin name"'
  return { id: 'invalid-value', message, cause: why, cure: `write ${shown(name)}`, steps, isAboutValue: true }
}
