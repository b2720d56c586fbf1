// SPDX-License-Identifier: Apache-2.0
// The list around the plugins: name, versions, further keys (CNI spec 1.1.0, section 1). The keys of a list match
// exactly, as in libcni; those of a single configuration without case.

import { isObject, lookUp } from '../../cni/json.ts'
import { type CniVersion, supportedVersions } from '../../cni/results.ts'
import type { Step } from '../json-text.ts'
import { nearestWord } from '../nearest-word.ts'
import { type Found, type Source, shown } from './finding.ts'
import { isRemark, unknownKey } from './unknown-keys.ts'

/** A list, or one plugin alone. */
export type Form = 'list' | 'single'

export interface PluginEntry {
  readonly conf: Readonly<Record<string, unknown>>
  readonly steps: readonly Step[]
  /** Place in the list, from 0. */
  readonly index: number
}

export interface ListRead {
  readonly name: string | undefined
  readonly version: CniVersion | undefined
  readonly plugins: readonly PluginEntry[]
  readonly found: readonly Found[]
}

/** The form by the file's extension, or else by its keys. */
export function formOf(file: string, root: Source['root']): Form {
  if (file.endsWith('.conflist')) return 'list'
  if (/\.(conf|json)$/.test(file)) return 'single'
  return 'plugins' in root ? 'list' : 'single'
}

export function readList({ root }: Source, form: Form): ListRead {
  const isList = form === 'list'
  const get = (key: string): unknown => (isList ? root[key] : lookUp(root, key))
  const name = get('name')
  const version = readVersion(get('cniVersion'), isList ? root['cniVersions'] : undefined)
  const { plugins, found } = isList ? readPlugins(root) : readSingle(root)
  return {
    name: typeof name === 'string' && name !== '' ? name : undefined,
    version: version.version,
    plugins,
    found: [...nameProblems(name), ...version.found, ...found, ...(isList ? keyProblems(root) : [])],
  }
}

function nameProblems(name: unknown): readonly Found[] {
  const steps = ['name']
  if (name === undefined || name === null || name === '') {
    return [{ id: 'name-missing', message: 'the network has no name', steps: name === '' ? steps : [] }]
  }
  if (typeof name !== 'string') return [{ id: 'name-missing', message: `name: ${shown(name)} is no text`, steps }]
  if (/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name)) return []
  return [{ id: 'name-invalid', message: `name: ${shown(name)} has characters that are not allowed`, steps }]
}

/** The version that libcni gives to the plugins: the newest known one. */
function readVersion(one: unknown, many: unknown): Pick<ListRead, 'version' | 'found'> {
  const named = Array.isArray(many) ? many : []
  const newest = supportedVersions.findLast((version) => one === version || named.includes(version))
  if (newest !== undefined) return { version: newest, found: [] }
  if (one === undefined || one === null || one === '') {
    const message = 'there is no cniVersion: it counts as 0.1.0'
    return { version: '0.1.0', found: [{ id: 'cni-version-missing', message, steps: [] }] }
  }
  const steps = ['cniVersion']
  if (typeof one !== 'string') {
    return { version: undefined, found: [{ id: 'wrong-type', message: `cniVersion: ${shown(one)} is no text`, steps }] }
  }
  const longer = supportedVersions.find((known) => known.startsWith(`${one}.`))
  const meant = longer ?? nearestWord(one, supportedVersions)
  const hint = meant === undefined ? '' : `; did you mean "${meant}"?`
  const message = `cniVersion: ${shown(one)} is no version of CNI${hint}`
  return { version: undefined, found: [{ id: 'cni-version-unknown', message, steps, isAboutValue: true }] }
}

function readPlugins({ plugins, ...root }: Source['root']): Pick<ListRead, 'plugins' | 'found'> {
  const missing = (message: string, cure?: string) => {
    return { plugins: [], found: [{ id: 'plugins-missing', message, cure, steps: ['plugins'] }] }
  }
  if (plugins === undefined) {
    const isSingle = lookUp(root, 'type') !== undefined
    if (!isSingle) return missing("no 'plugins' key")
    return missing('this is one plugin, not a list of them', 'rename the file to .conf, or add "plugins"')
  }
  if (!Array.isArray(plugins)) return missing(`plugins: ${shown(plugins)} is no list`, 'use "plugins": [ { … } ]')
  if (plugins.length === 0) return missing('plugins: the list is empty')
  const entries: PluginEntry[] = []
  const found: Found[] = []
  for (const [index, conf] of plugins.entries()) {
    const steps = ['plugins', index]
    const message = `plugins[${index}]: ${shown(conf)} is no object`
    if (isObject(conf)) entries.push({ conf, steps, index })
    else found.push({ id: 'wrong-type', message, cure: 'use { … }', steps })
  }
  return { plugins: entries, found }
}

function readSingle(root: Source['root']): Pick<ListRead, 'plugins' | 'found'> {
  if (lookUp(root, 'plugins') === undefined) return { plugins: [{ conf: root, steps: [], index: 0 }], found: [] }
  const message = 'this is a list of plugins, and the file is not named .conflist'
  return { plugins: readPlugins(root).plugins, found: [{ id: 'list-in-conf', message, steps: ['plugins'] }] }
}

const switches = ['disableCheck', 'disableGC', 'loadOnlyInlinedPlugins']
/** nerdctl finds its networks by two of these, podman keeps labels in `args`. */
const listKeys = [...['cniVersion', 'cniVersions', 'name', 'plugins'], ...['nerdctlID', 'nerdctlLabels', 'args']]

/** Keys beside `plugins`, which reach no plugin; libcni takes the words "true" and "false" for a switch as well. */
function keyProblems(root: Source['root']): readonly Found[] {
  // A plugin in the place of a list is one finding.
  if (root['plugins'] === undefined && lookUp(root, 'type') !== undefined) return []
  const names = [...listKeys, ...switches]
  const shape = { keys: new Map(names.map((name) => [name.toLowerCase(), { name, shape: undefined }])) }
  const found: Found[] = []
  for (const [key, value] of Object.entries(root)) {
    if (!names.includes(key) && !isRemark(key)) {
      const unknown = unknownKey([key], { shape, whole: {}, owner: 'a list' })
      // Other tools keep their own data in a list: only a likely misspelling is a warning.
      found.push(unknown.cure === undefined ? { ...unknown, severity: 'note' } : unknown)
    }
    if (switches.includes(key) && !/^(true|false)$/i.test(String(value))) {
      const message = `${key}: ${shown(value)} is not true or false`
      found.push({ id: 'wrong-type', message, cure: 'use true or false', steps: [key] })
    }
  }
  return found
}
