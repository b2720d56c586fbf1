// SPDX-License-Identifier: Apache-2.0
// stdin as JSON, and the keys every verb needs: name, cniVersion, type. Errors in the order of the
// upstream (pkg/skel): 6 not JSON, 7 name, 1 version.

import { findJsonProblem } from '../../src/commands/lint/json-problems.ts'
import { CniError, hasControlCharacter, notA, orElse, quote } from './error.ts'
import type { ErrorId } from './error-code.ts'
import { type Invocation, ownType, type Verb } from './invocation.ts'
import { isObject, lookUp } from './json.ts'
import { type CniVersion, currentVersion, isSupported, supportedVersions } from './result.ts'

export type JsonObject = Readonly<Record<string, unknown>>

type Called = Pick<Invocation, 'verb' | 'ownTypes'>

export interface ConfigHead {
  readonly root: JsonObject
  readonly name: string
  readonly type: string
  readonly cniVersion: CniVersion
}

/** Deeper than any configuration; a bound on the recursion of what reads it. */
const DEEPEST = 64

/** More values than any configuration has, a GC of 16,000 attachments included; a bound on the time to read it. */
const MOST_VALUES = 50_000

/** A text shorter than this has no more values than that can be read in a few milliseconds. */
const SHORT_TEXT = 64 * 1024

const LONGEST_NAME = 8192

/** Upstream's words before what is wrong with a text (pkg/skel/skel.go). */
export const undecodable = 'error unmarshall network config: '

/**
 * How often a value may begin in `text`, and how deep brackets go in it, strings left out: a bound that costs nothing
 * but the reading, whether or not it is JSON. Stops where either is exceeded.
 */
function isTooMuch(text: string): 'values' | 'depth' | undefined {
  let [values, depth, isInString] = [1, 0, false]
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (isInString) {
      if (code === BACKSLASH) at++
      else if (code === QUOTE) isInString = false
    } else if (code === QUOTE) isInString = true
    else if (code === COMMA) values++
    else if (code === BRACKET || code === BRACE) {
      values++
      depth++
    } else if (code === BRACKET + 2 || code === BRACE + 2) depth--
    if (depth > DEEPEST) return 'depth'
    if (values > MOST_VALUES) return 'values'
  }
  return undefined
}

const [QUOTE, COMMA, BRACKET, BACKSLASH, BRACE] = [0x22, 0x2c, 0x5b, 0x5c, 0x7b]

function isTooDeep(value: unknown, left: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return left === 0 || Object.values(value).some((child) => isTooDeep(child, left - 1))
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    const found = findJsonProblem(text)
    const place = found === undefined ? '' : ` at line ${found.line}, column ${found.column}`
    const what = text.trim() === '' ? 'stdin is empty' : (found?.problem ?? 'not JSON')
    const details = 'stdin must hold the network configuration as one JSON object'
    throw new CniError('not-json', `${undecodable}${what}${place}`, { details, cause })
  }
}

/** stdin as one JSON object. Throws CniError decodingFailure, with line and column of what is wrong. */
export function parseConfig(stdin: string): JsonObject {
  const excess = stdin.length > SHORT_TEXT ? isTooMuch(stdin) : undefined
  if (excess === 'values') throw tooLarge(`more than ${MOST_VALUES} values`)
  if (excess === 'depth') throw tooDeep()
  const value = parse(stdin)
  if (!isObject(value)) {
    const message = `${undecodable}${quote(value)} is not an object`
    throw new CniError('not-an-object', message, { details: 'use { ... }' })
  }
  if (isTooDeep(value, DEEPEST)) throw tooDeep()
  return value
}

function tooDeep(): CniError {
  return tooLarge(`nested more than ${DEEPEST} levels deep`)
}

function tooLarge(what: string): CniError {
  return new CniError('json-too-deep', `${undecodable}${what}`)
}

function readName(root: JsonObject): string {
  const name = lookUp(root, 'name') ?? ''
  const hint = 'use letters, digits, _, . and -; the first is a letter or digit'
  const path = ['name']
  if (name === '') {
    throw new CniError('network-name-missing', 'missing network name', { path, details: `name: ${hint}` })
  }
  const id = 'network-name-invalid'
  if (typeof name !== 'string') throw notA(path, name, { id, what: 'a string', hint })
  if (name.length > LONGEST_NAME) throw notA(path, name, { id, what: `at most ${LONGEST_NAME} characters`, hint })
  if (/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name)) return name
  const details = `name: ${quote(name)}; ${hint}`
  throw new CniError(id, 'invalid characters found in network name', { path, details })
}

/** NAME_MAX (include/uapi/linux/limits.h). */
const LONGEST_FILE_NAME = 255

/** Whether `text` is one file name: CNI spec 1.1.0, section 1, no path separators in `type`. */
export function isPluginType(text: unknown): text is string {
  return (
    typeof text === 'string' &&
    text !== '' &&
    text !== '.' &&
    text !== '..' &&
    text.length <= LONGEST_FILE_NAME &&
    !/[/\\]/.test(text) &&
    !hasControlCharacter(text)
  )
}

/** A configuration without `type` is ours, as is the name that we were called by: the runtime found us by it. */
function readType(root: JsonObject, { verb, ownTypes: [called = ownType] }: Called): string {
  const type = lookUp(root, 'type') ?? called
  if (isPluginType(type)) return type
  if (verb === 'DEL') return called
  throw notA(['type'], type, { id: 'plugin-type-invalid', what: 'the name of a plugin', hint: 'use "trestle"' })
}

/** "0.4" is 0.4.0; undefined for what is no version (Go: cni pkg/version/plugin.go). */
function numbersOf(text: string): readonly number[] | undefined {
  const parts = text.split('.')
  if (parts.length > 3 || !parts.every((part) => /^[0-9]{1,9}$/.test(part))) return undefined
  return [0, 1, 2].map((index) => Number(parts[index] ?? 0))
}

function isOlder(a: readonly number[], b: readonly number[]): boolean {
  const index = a.findIndex((part, i) => part !== b[i])
  return index >= 0 && (a[index] ?? 0) < (b[index] ?? 0)
}

/** The version from which on a verb exists: CNI spec 0.4.0 (CHECK), 1.1.0 (GC, STATUS). */
const firstVersions: Readonly<Partial<Record<Verb, CniVersion>>> = { CHECK: '0.4.0', GC: '1.1.0', STATUS: '1.1.0' }

function checkGate(text: string, verb: Verb): void {
  const first = firstVersions[verb]
  if (first === undefined) return
  const numbers = numbersOf(text)
  if (numbers === undefined) {
    throw versionError('version-invalid', `cniVersion: ${quote(text)} is not a version`, 'use one like "1.0.0"')
  }
  if (!isOlder(numbers, numbersOf(first) ?? [])) {
    if (!isOlder(numbersOf(currentVersion) ?? [], numbers)) return
    throw versionError('version-unsupported', `plugin version does not allow ${verb}`, versionDetails(text))
  }
  const details = `config is ${quote(text)}, ${verb} needs ${first} or newer`
  throw versionError('verb-needs-newer-version', `config version does not allow ${verb}`, details)
}

function versionError(id: ErrorId, message: string, details: string): CniError {
  return new CniError(id, message, { path: ['cniVersion'], details })
}

function versionDetails(text: string): string {
  return `config is ${quote(text)}, plugin supports [${supportedVersions.map((version) => `"${version}"`).join(' ')}]`
}

/** Missing or empty is 0.1.0, as in upstream. */
function readVersion(root: JsonObject, verb: Verb): CniVersion {
  const given = lookUp(root, 'cniVersion') ?? ''
  if (typeof given !== 'string') {
    const message = `cniVersion: ${quote(given)} is not a string`
    throw versionError('version-invalid', message, `use "${currentVersion}", in quotes`)
  }
  const text = given === '' ? '0.1.0' : given
  checkGate(text, verb)
  if (isSupported(text)) return text
  throw versionError('version-unsupported', 'incompatible CNI versions', versionDetails(text))
}

/** stdin, and name, version and type from it. Throws CniError 6, 7 or 1, in this order. */
export function readHead(stdin: string, called: Called): ConfigHead {
  const root = parseConfig(stdin)
  const name = readName(root)
  const cniVersion = readVersion(root, called.verb)
  return { root, name, cniVersion, type: readType(root, called) }
}

function parseLeniently(stdin: string): JsonObject | undefined {
  return orElse(() => parseConfig(stdin), undefined)
}

/** VERSION: the caller's cniVersion when it is given and supported, else ours. Throws nothing. */
export function readVersionRequest(stdin: string): CniVersion {
  const root = parseLeniently(stdin)
  const given = root === undefined ? undefined : lookUp(root, 'cniVersion')
  return isSupported(given) ? given : currentVersion
}

/** The version an error is written in: the configuration's if that can be told, else ours. Throws nothing. */
export function callerVersion(stdin: string): CniVersion {
  const root = parseLeniently(stdin)
  if (root === undefined) return currentVersion
  const given = lookUp(root, 'cniVersion') ?? ''
  if (given === '') return '0.1.0'
  return isSupported(given) ? given : currentVersion
}

export { findJsonProblem, type JsonProblem, positionOf } from '../../src/commands/lint/json-problems.ts'
