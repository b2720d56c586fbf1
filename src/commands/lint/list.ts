// SPDX-License-Identifier: Apache-2.0
// The list around the plugins: name, versions, further keys (CNI spec 1.1.0, section 1). The keys of a list match
// exactly, as in libcni; those of a single configuration without case.

import { isObject, lookUp } from '../../cni/json.ts'
import { type CniVersion, supportedVersions } from '../../cni/results.ts'
import { nearestWord } from '../nearest-word.ts'
import { type Found, type Source, type Step, shown } from './finding.ts'
import { isRemark, shapeOf, unknownKey } from './unknown-keys.ts'

/** nerdctl finds its networks by these (netutil.go), podman keeps labels in `args` (cni_types.go). */
const toolKeys = ['nerdctlID', 'nerdctlLabels', 'args']

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

const listKeys = ['cniVersion', 'cniVersions', 'name', 'disableCheck', 'disableGC', 'loadOnlyInlinedPlugins', 'plugins']

/** The form by the file's extension, or else by its keys. */
export function formOf(file: string, root: Source['root']): Form {
  if (file.endsWith('.conflist')) return 'list'
  if (/\.(conf|json)$/.test(file)) return 'single'
  return 'plugins' in root ? 'list' : 'single'
}

export function readList({ root }: Source, form: Form): ListRead {
  const get = (key: string): unknown => (form === 'list' ? root[key] : lookUp(root, key))
  const version = readVersion(get('cniVersion'), form === 'list' ? root['cniVersions'] : undefined)
  const { plugins, found } = form === 'list' ? readPlugins(root) : readSingle(root)
  const name = get('name')
  const all = [...nameProblems(name), ...version.found, ...found, ...switchProblems(root, form)]
  const isUsable = typeof name === 'string' && name !== ''
  return {
    name: isUsable ? name : undefined,
    version: version.version,
    plugins,
    found: [...all, ...keyProblems(root, form)],
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
function readVersion(one: unknown, many: unknown): { version: CniVersion | undefined; found: readonly Found[] } {
  const found: Found[] = []
  const named = Array.isArray(many) ? many : []
  if (many !== undefined && (!Array.isArray(many) || !many.every((each) => typeof each === 'string'))) {
    found.push({ id: 'wrong-type', message: `cniVersions: ${shown(many)} is no list of texts`, steps: ['cniVersions'] })
  }
  if (one !== undefined && one !== null && typeof one !== 'string') {
    const message = `cniVersion: ${shown(one)} is no text`
    return { version: undefined, found: [...found, { id: 'wrong-type', message, steps: ['cniVersion'] }] }
  }
  const newest = supportedVersions.findLast((version) => one === version || named.includes(version))
  if (newest !== undefined) return { version: newest, found }
  if (one === undefined || one === null || one === '') {
    const message = 'there is no cniVersion: it counts as 0.1.0'
    return { version: '0.1.0', found: [...found, { id: 'cni-version-missing', message, steps: [] }] }
  }
  return { version: undefined, found: [...found, unknownVersion(one)] }
}

function unknownVersion(version: string): Found {
  const longer = supportedVersions.find((known) => known.startsWith(`${version}.`))
  const meant = longer ?? nearestWord(version, supportedVersions)
  const message = `cniVersion: ${shown(version)} is no version of CNI`
  const hint = meant === undefined ? message : `${message}; did you mean "${meant}"?`
  return { id: 'cni-version-unknown', message: hint, steps: ['cniVersion'], isAboutValue: true }
}

function readPlugins(root: Source['root']): Pick<ListRead, 'plugins' | 'found'> {
  const { plugins } = root
  const missing = (message: string, { cure, key = 'plugins' }: { cure?: string; key?: string } = {}) => {
    return { plugins: [], found: [{ id: 'plugins-missing', message, cure, steps: [key] }] } as const
  }
  if (plugins === undefined) {
    const isSingle = lookUp(root, 'type') !== undefined
    const cure = 'rename the file to .conf, or add "plugins"'
    if (isSingle) return missing('this is one plugin, not a list of them', { cure })
    const meant = Object.keys(root).find((key) => nearestWord(key, ['plugins']) !== undefined)
    if (meant === undefined) return missing("no 'plugins' key")
    return missing("no 'plugins' key", { cure: `write "plugins" for ${shown(meant)}`, key: meant })
  }
  if (!Array.isArray(plugins))
    return missing(`plugins: ${shown(plugins)} is no list`, { cure: 'use "plugins": [ { … } ]' })
  if (plugins.length === 0) return missing('plugins: the list is empty')
  return entriesOf(plugins)
}

function entriesOf(plugins: readonly unknown[]): Pick<ListRead, 'plugins' | 'found'> {
  const entries: PluginEntry[] = []
  const found: Found[] = []
  for (const [index, conf] of plugins.entries()) {
    const steps = ['plugins', index]
    if (!isObject(conf)) {
      const message = `plugins[${index}]: ${shown(conf)} is no object`
      found.push({ id: 'wrong-type', message, cure: 'use { … }', steps })
    } else entries.push({ conf, steps, index })
  }
  return { plugins: entries, found }
}

function readSingle(root: Source['root']): Pick<ListRead, 'plugins' | 'found'> {
  if (lookUp(root, 'plugins') === undefined) return { plugins: [{ conf: root, steps: [], index: 0 }], found: [] }
  const message = 'this is a list of plugins, and the file is not named .conflist'
  const found: Found = { id: 'list-in-conf', message, steps: ['plugins'] }
  const { plugins } = readPlugins(root)
  const type = lookUp(root, 'type')
  if (typeof type !== 'string' || type === '') return { plugins, found: [found] }
  // A file with a type beside its list loads as that plugin alone.
  const cause = `only .conflist files may have \`plugins\`: runtimes call the ${shown(type)} at the top alone`
  return { plugins, found: [{ ...found, cause, cure: 'rename it to .conflist, and remove the type beside plugins' }] }
}

/** Booleans of a list; libcni takes the words "true" and "false" as well. */
function switchProblems(root: Source['root'], form: Form): readonly Found[] {
  if (form !== 'list') return []
  return ['disableCheck', 'disableGC', 'loadOnlyInlinedPlugins'].flatMap((key): readonly Found[] => {
    const value = root[key]
    if (value === undefined || typeof value === 'boolean' || /^(true|false)$/i.test(String(value))) return []
    const message = `${key}: ${shown(value)} is not true or false`
    return [{ id: 'wrong-type', message, cure: 'use true or false', steps: [key] }]
  })
}

/** Keys beside `plugins` reach no plugin. */
const plugin = shapeOf([
  ...['ipam', 'podcidr', 'bridge', 'mode', 'capabilities', 'ipMasq', 'isGateway', 'isDefaultGateway', 'mtu', 'dns'],
])
const whole = { keys: new Map([['plugins', { name: 'plugins', shape: { items: plugin } }]]) }

function keyProblems(root: Source['root'], form: Form): readonly Found[] {
  if (form !== 'list') return []
  // A plugin in the place of a list is one finding.
  if (root['plugins'] === undefined && lookUp(root, 'type') !== undefined) return []
  const known = [...listKeys, ...toolKeys]
  const unknown = Object.keys(root).filter((key) => !known.includes(key) && !isRemark(key))
  return unknown.map((key) => {
    const found = unknownKey([key], key, { shape: shapeOf(listKeys), whole, what: 'a list' })
    // Other tools keep their own data in these keys.
    return found.cure === undefined ? { ...found, severity: 'note' } : found
  })
}
