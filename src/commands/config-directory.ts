// SPDX-License-Identifier: Apache-2.0
// A directory of configurations as libcni reads it (containernetworking/cni v1.3.1, libcni/conf.go): the order of the
// files, and whether a file loads.

import { readdirSync } from 'node:fs'
import { extname, join } from 'node:path'
import { isObject, type JsonObject, lookUp } from '../cni/json.ts'
import { orElse } from './if-there.ts'

/** Whether containerd and CRI-O look at such a file. */
export function isConfigurationName(name: string): boolean {
  return ['.conf', '.conflist', '.json'].includes(extname(name))
}

/** The order of Go's sort.Strings: by bytes. */
export function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** The names in a directory in Go's order, without directories. A link to a directory does not count as one, as in Go. */
export function filesIn(directory: string): readonly string[] {
  const entries = readdirSync(directory, { withFileTypes: true }).filter((entry) => !entry.isDirectory())
  return entries.map(({ name }) => name).toSorted(byBytes)
}

/** A file that loads. `version`: empty if it has none. `types`: of its plugins, in order. */
export interface Loaded {
  readonly name: string
  readonly version: string
  readonly types: readonly string[]
  /** False: the folder named after the network may have further plugins. */
  readonly isWhole: boolean
}

export interface NotLoaded {
  readonly problem: string
}

/** Loads a text as the file's name says: a list, or one plugin alone. */
export function loadFile(file: string, text: string): Loaded | NotLoaded {
  const root = orElse(() => JSON.parse(text) as unknown, undefined)
  if (root === undefined) return { problem: 'it is not JSON' }
  if (!isObject(root)) return { problem: 'it is no object' }
  if (extname(file) === '.conflist') return loadList(root)
  const problem = pluginProblem(root)
  if (problem !== undefined) return { problem }
  const [name = '', version = ''] = [lookUp(root, 'name'), lookUp(root, 'cniVersion')].map((value) => textOf(value))
  return { name, version, types: [textOf(lookUp(root, 'type'))], isWhole: true }
}

/** The keys of a list match exactly. */
function loadList(root: JsonObject): Loaded | NotLoaded {
  const { name, cniVersion = '', plugins, loadOnlyInlinedPlugins = false } = root
  if (typeof name !== 'string') return { problem: 'no name' }
  if (typeof cniVersion !== 'string') return { problem: 'cniVersion is no text' }
  const isWhole = String(loadOnlyInlinedPlugins).toLowerCase() === 'true'
  if (plugins === undefined) {
    if (isWhole) return { problem: "`loadOnlyInlinedPlugins` is true, and no 'plugins' key" }
    return { name, version: cniVersion, types: [], isWhole }
  }
  if (!Array.isArray(plugins)) return { problem: 'plugins is no list' }
  if (plugins.length === 0) return { problem: 'no plugins in list' }
  for (const [index, conf] of plugins.entries()) {
    const problem = pluginProblem(conf)
    if (problem !== undefined) return { problem: `plugins[${index}]: ${problem}` }
  }
  const types = plugins.map((conf: JsonObject) => textOf(lookUp(conf, 'type')))
  return { name, version: cniVersion, types, isWhole }
}

/** Why Go's decoder or libcni refuses one plugin. Keys match without case. */
function pluginProblem(conf: unknown): string | undefined {
  if (!isObject(conf)) return 'it is no object'
  for (const key of ['type', 'name', 'cniVersion']) {
    const value = lookUp(conf, key)
    if (typeof value !== 'string' && value !== undefined && value !== null) return `${key} is no text`
  }
  if (textOf(lookUp(conf, 'type')) === '') return "missing 'type'"
  const [capabilities = {}, ipam = {}, dns = {}] = ['capabilities', 'ipam', 'dns'].map((key) => lookUp(conf, key) ?? {})
  if (![capabilities, ipam, dns].every(isObject)) return 'capabilities, ipam and dns are objects'
  const areSwitches = Object.values(capabilities).every((value) => typeof value === 'boolean')
  return areSwitches ? undefined : 'a capability is not true or false'
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** Plugins of a list in the folder that has the network's name (CNI spec 1.1.0, section 1). */
export function pluginFilesOf(directory: string, load: Loaded | NotLoaded): readonly string[] {
  if ('problem' in load || load.isWhole || load.name.includes('/')) return []
  const folder = join(directory, load.name)
  // A folder that cannot be read is as none.
  const names = orElse(() => filesIn(folder), [])
  return names.filter((name) => extname(name) === '.conf').map((name) => join(folder, name))
}
