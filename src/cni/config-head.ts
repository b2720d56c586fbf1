// SPDX-License-Identifier: Apache-2.0
// The keys that every verb needs: name, cniVersion, type. Errors come in the order of the reference plugins (cni
// pkg/skel): 6 not JSON, 7 name, 1 version.

import { type Call, ownType, type Verb } from './call.ts'
import { CniError, Code, hasControlCharacter, notA, quote } from './errors.ts'
import { type JsonObject, lookUp, parseConfig, parseObject } from './json.ts'
import { type CniVersion, currentVersion, isSupported, supportedVersions } from './results.ts'

export interface ConfigHead {
  readonly root: JsonObject
  readonly name: string
  readonly type: string
  readonly cniVersion: CniVersion
}

const longestName = 8192

/** The configuration as an object, with its name, version and type. Throws CniError 6, 7 or 1. */
export function readHead(stdin: string, called: Pick<Call, 'verb' | 'ownTypes'>): ConfigHead {
  const root = parseConfig(stdin)
  const name = readName(root)
  const cniVersion = readVersion(root, called.verb)
  return { root, name, cniVersion, type: readType(root, called) }
}

function readName(root: JsonObject): string {
  const name = lookUp(root, 'name') ?? ''
  const hint = 'use letters, digits, _, . and -; the first is a letter or digit'
  const path = ['name']
  const missing = { path, details: `name: ${hint}` }
  if (name === '') throw new CniError(Code.invalidConfig, 'network-name-missing', 'missing network name', missing)
  const id = 'network-name-invalid'
  if (typeof name !== 'string') throw notA(path, name, { id, what: 'a string', hint })
  if (name.length > longestName) throw notA(path, name, { id, what: `at most ${longestName} characters`, hint })
  if (/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name)) return name
  const details = `name: ${quote(name)}; ${hint}`
  throw new CniError(Code.invalidConfig, id, 'invalid characters found in network name', { path, details })
}

/** Whether the text is one file name: CNI spec 1.1.0, section 1, no path separators in `type`. */
export function isPluginType(text: unknown): text is string {
  if (typeof text !== 'string' || text === '' || text === '.' || text === '..') return false
  return text.length <= 255 && !/[/\\]/.test(text) && !hasControlCharacter(text)
}

/** A configuration without `type` is ours: the runtime found the executable by the name that it called. */
function readType(root: JsonObject, { verb, ownTypes: [called = ownType] }: Pick<Call, 'verb' | 'ownTypes'>): string {
  const type = lookUp(root, 'type') ?? called
  if (isPluginType(type)) return type
  if (verb === 'DEL') return called
  throw notA(['type'], type, { id: 'plugin-type-invalid', what: 'the name of a plugin', hint: 'use "trestle"' })
}

/** The version from which on a verb exists. */
const firstVersions: Readonly<Partial<Record<Verb, CniVersion>>> = { CHECK: '0.4.0', GC: '1.1.0', STATUS: '1.1.0' }

/** A missing or empty version is 0.1.0, as in the reference plugins. */
function readVersion(root: JsonObject, verb: Verb): CniVersion {
  const given = lookUp(root, 'cniVersion') ?? ''
  if (typeof given !== 'string') {
    const hint = `use "${currentVersion}", in quotes`
    throw versionError(Code.decodingFailure, 'version-invalid', `cniVersion: ${quote(given)} is not a string`, hint)
  }
  const version = given === '' ? '0.1.0' : given
  requireVerb(version, verb)
  if (isSupported(version)) return version
  throw versionError(Code.incompatibleVersion, 'version-unsupported', 'incompatible CNI versions', supportText(version))
}

function requireVerb(version: string, verb: Verb): void {
  const first = firstVersions[verb]
  if (first === undefined) return
  const numbers = versionNumbers(version)
  if (numbers === undefined) {
    const message = `cniVersion: ${quote(version)} is not a version`
    throw versionError(Code.decodingFailure, 'version-invalid', message, 'use one like "1.0.0"')
  }
  if (isOlder(numbers, versionNumbers(first) ?? [])) {
    const details = `config is ${quote(version)}, ${verb} needs ${first} or newer`
    const message = `config version does not allow ${verb}`
    throw versionError(Code.incompatibleVersion, 'verb-needs-newer-version', message, details)
  }
  if (!isOlder(versionNumbers(currentVersion) ?? [], numbers)) return
  const message = `plugin version does not allow ${verb}`
  throw versionError(Code.incompatibleVersion, 'version-unsupported', message, supportText(version))
}

/** "0.4" is 0.4.0; undefined for what is no version (cni pkg/version/plugin.go). */
function versionNumbers(text: string): readonly number[] | undefined {
  const parts = text.split('.')
  if (parts.length > 3 || !parts.every((part) => /^[0-9]{1,9}$/.test(part))) return undefined
  return [0, 1, 2].map((index) => Number(parts[index] ?? 0))
}

function isOlder(a: readonly number[], b: readonly number[]): boolean {
  const index = a.findIndex((part, i) => part !== b[i])
  return index >= 0 && (a[index] ?? 0) < (b[index] ?? 0)
}

function versionError(code: number, id: string, message: string, details: string): CniError {
  return new CniError(code, id, message, { path: ['cniVersion'], details })
}

function supportText(version: string): string {
  return `config is ${quote(version)}, plugin supports [${supportedVersions.map((each) => `"${each}"`).join(' ')}]`
}

/** VERSION echoes the caller's cniVersion where it is given and supported. Throws nothing. */
export function readVersionRequest(stdin: string): CniVersion {
  const given = lookUp(parseObject(stdin) ?? {}, 'cniVersion')
  return isSupported(given) ? given : currentVersion
}

/** The version that an error is written in: the configuration's if that can be read, else ours. Throws nothing. */
export function callerVersion(stdin: string): CniVersion {
  const root = parseObject(stdin)
  if (root === undefined) return currentVersion
  const given = lookUp(root, 'cniVersion') ?? ''
  if (given === '') return '0.1.0'
  return isSupported(given) ? given : currentVersion
}
