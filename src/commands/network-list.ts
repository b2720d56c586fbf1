// SPDX-License-Identifier: Apache-2.0
// A network configuration as libcni reads it: a list of plugins (.conflist), or one plugin alone (.conf, .json). `lint`
// prints every fault of it, other commands stop at the first. Sources: CNI spec 1.1.0, section 1, and
// containernetworking/cni v1.3.1, libcni/conf.go.

import { isPluginType } from '../cni/config-head.ts'
import { isObject, type JsonObject, lookUp, parseConfig } from '../cni/json.ts'
import { type CniVersion, supportedVersions } from '../cni/results.ts'
import { failureOf } from './failure.ts'
import { keyPathOf, type Step, shown } from './json-text.ts'
import { nearestWord } from './nearest-word.ts'

/** One plugin of a list, as written. */
export interface PluginConf {
  readonly type: string
  readonly capabilities?: Readonly<Record<string, boolean>> | undefined
  readonly [key: string]: unknown
}

/** A network that can be called: its plugins in the order of ADD. */
export interface NetworkList {
  readonly name: string
  readonly cniVersion: CniVersion
  readonly disableCheck: boolean
  readonly disableGc: boolean
  readonly plugins: readonly PluginConf[]
}

/** A plugin with its place: the keys that lead to it, and the number in the list, from 0. */
export interface PluginEntry {
  readonly conf: JsonObject
  readonly steps: readonly Step[]
  readonly index: number
}

/** `stops`: libcni does not load the file; or it loads it, and no call goes well. */
export interface ListFault {
  readonly id: string
  readonly message: string
  readonly steps: readonly Step[]
  readonly cure?: string | undefined
  readonly isAboutValue?: boolean
  readonly stops: 'load' | 'call' | 'nothing'
}

export interface ListRead {
  /** Empty without one. */
  readonly name: string
  /** What the plugins get: the newest version that is known. */
  readonly version: CniVersion | undefined
  readonly disableCheck: boolean
  readonly disableGc: boolean
  readonly plugins: readonly PluginEntry[]
  readonly faults: readonly ListFault[]
}

export type Form = 'list' | 'single'

/** The form by the file's extension, or else by its keys. */
export function formOf(file: string, root: JsonObject): Form {
  if (file.endsWith('.conflist')) return 'list'
  if (/\.(conf|json)$/.test(file)) return 'single'
  return 'plugins' in root ? 'list' : 'single'
}

/** The keys of a list match exactly, of one plugin without case. */
export function readList(root: JsonObject, form: Form): ListRead {
  const isList = form === 'list'
  const get = (key: string): unknown => (isList ? root[key] : lookUp(root, key))
  const name = get('name')
  const version = readVersion(get('cniVersion'), isList ? root['cniVersions'] : undefined)
  const { plugins, faults } = isList ? readPlugins(root) : readSingle(root)
  return {
    name: typeof name === 'string' ? name : '',
    version: version.version,
    disableCheck: isTrue(get('disableCheck')),
    disableGc: isTrue(get('disableGC')),
    plugins,
    faults: [...nameFaults(name, isList), ...version.faults, ...faults, ...plugins.flatMap(pluginFaults)],
  }
}

/** libcni takes the words "true" and "false" for a switch as well. */
function isTrue(value: unknown): boolean {
  return String(value).toLowerCase() === 'true'
}

/** Throws CniError 6 for invalid JSON, 7 or 1 for JSON that is no network configuration. */
export function readNetworkList(text: string): NetworkList {
  const root = parseConfig(text)
  return callable(readList(root, 'plugins' in root ? 'list' : 'single'))
}

/** The list, if calls can be made of it. Throws CniError 7, or 1 for an unknown version. */
export function callable({ faults, version = '0.1.0', plugins, ...read }: ListRead): NetworkList {
  const [first, ...others] = faults.filter(({ stops }) => stops !== 'nothing')
  if (first?.id === 'cni-version-unknown') {
    throw failureOf('version-unsupported', first.message, { details: `supported: ${supportedVersions.join(', ')}` })
  }
  if (first !== undefined) {
    const details = [first.cure, ...others.map(({ message }) => message)].filter(Boolean).join('\n')
    throw failureOf('list-invalid', `this is no network configuration: ${first.message}`, { details })
  }
  const { name, disableCheck, disableGc } = read
  return { name, cniVersion: version, disableCheck, disableGc, plugins: plugins.map(confOf) }
}

export function confOf({ conf, steps }: PluginEntry): PluginConf {
  const type = lookUp(conf, 'type')
  if (isPluginType(type)) return { ...conf, type, capabilities: (lookUp(conf, 'capabilities') ?? undefined) as never }
  const message = `${keyPathOf([...steps, 'type'])}: ${shown(type)} is no name of a plugin: it has a path`
  throw failureOf('list-invalid', `this is no network configuration: ${message}`)
}

function nameFaults(name: unknown, isList: boolean): readonly ListFault[] {
  const id = 'name-missing'
  if (name === undefined || name === null || name === '') {
    const isLoaded = name === '' || !isList
    const steps = name === '' ? ['name'] : []
    return [{ id, message: 'the network has no name', steps, stops: isLoaded ? 'call' : 'load' }]
  }
  if (typeof name !== 'string')
    return [{ id, message: `name: ${shown(name)} is no text`, steps: ['name'], stops: 'load' }]
  if (/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name)) return []
  const message = `name: ${shown(name)} has characters that are not allowed`
  const cure = 'use letters, digits, _, . and -; the first is a letter or digit'
  return [{ id: 'name-invalid', message, cure, steps: ['name'], stops: 'call' }]
}

/** libcni takes the oldest version when the list has none (cni pkg/version, ConfigDecoder). */
function readVersion(one: unknown, many: unknown): { version?: CniVersion; faults: readonly ListFault[] } {
  const named = Array.isArray(many) ? many : []
  const newest = supportedVersions.findLast((version) => one === version || named.includes(version))
  if (newest !== undefined) return { version: newest, faults: [] }
  if (one === undefined || one === null || one === '') {
    const message = 'there is no cniVersion: it counts as 0.1.0'
    return { version: '0.1.0', faults: [{ id: 'cni-version-missing', message, steps: [], stops: 'nothing' }] }
  }
  const steps = ['cniVersion']
  if (typeof one !== 'string') {
    return { faults: [{ id: 'wrong-type', message: `cniVersion: ${shown(one)} is no text`, steps, stops: 'load' }] }
  }
  const longer = supportedVersions.find((known) => known.startsWith(`${one}.`))
  const meant = longer ?? nearestWord(one, supportedVersions)
  const hint = meant === undefined ? '' : `; did you mean "${meant}"?`
  const message = `cniVersion: ${shown(one)} is no version of CNI${hint}`
  return { faults: [{ id: 'cni-version-unknown', message, steps, isAboutValue: true, stops: 'call' }] }
}

type Plugins = Pick<ListRead, 'plugins' | 'faults'>

function readPlugins({ plugins, ...root }: JsonObject): Plugins {
  const missing = (message: string, cure?: string): Plugins => {
    return { plugins: [], faults: [{ id: 'plugins-missing', message, cure, steps: ['plugins'], stops: 'load' }] }
  }
  if (plugins === undefined) {
    const isSingle = lookUp(root, 'type') !== undefined
    if (!isSingle) return missing("no 'plugins' key")
    return missing('this is one plugin, not a list of them', 'rename the file to .conf, or add "plugins"')
  }
  if (!Array.isArray(plugins)) return missing(`plugins: ${shown(plugins)} is no list`, 'use "plugins": [ { … } ]')
  if (plugins.length === 0) return missing('plugins: the list is empty')
  const entries: PluginEntry[] = []
  const faults: ListFault[] = []
  for (const [index, conf] of plugins.entries()) {
    const steps = ['plugins', index]
    const message = `plugins[${index}]: ${shown(conf)} is no object`
    if (isObject(conf)) entries.push({ conf, steps, index })
    else faults.push({ id: 'wrong-type', message, cure: 'use { … }', steps, stops: 'load' })
  }
  return { plugins: entries, faults }
}

function readSingle(root: JsonObject): Plugins {
  if (lookUp(root, 'plugins') === undefined) return { plugins: [{ conf: root, steps: [], index: 0 }], faults: [] }
  const message = 'this is a list of plugins, and the file is not named .conflist'
  const { plugins } = readPlugins(root)
  return { plugins, faults: [{ id: 'list-in-conf', message, steps: ['plugins'], stops: 'load' }] }
}

/** Why Go's decoder or libcni refuses one plugin. */
function pluginFaults({ conf, steps }: PluginEntry): readonly ListFault[] {
  const faults: ListFault[] = []
  const wrong = (key: string, value: unknown, what: string, cure?: string) => {
    const at = [...steps, ...key.split('.')]
    const message = `${keyPathOf(at)}: ${shown(value)} is ${what}`
    faults.push({ id: 'wrong-type', message, cure, steps: at, isAboutValue: true, stops: 'load' })
  }
  const type = lookUp(conf, 'type') ?? ''
  if (typeof type !== 'string') {
    faults.push({
      id: 'type-missing',
      message: `type: ${shown(type)} is no text`,
      steps: [...steps, 'type'],
      stops: 'load',
    })
  } else if (type === '') {
    const meant = Object.keys(conf).find((key) => key !== 'type' && nearestWord(key, ['type']) !== undefined)
    const found = { id: 'type-missing', message: 'the plugin has no type', stops: 'load' } as const
    if (meant === undefined) faults.push({ ...found, steps })
    else faults.push({ ...found, cure: `write "type" for ${shown(meant)}`, steps: [...steps, meant] })
  }
  for (const key of steps.length === 0 ? [] : ['name', 'cniVersion']) {
    const value = lookUp(conf, key) ?? ''
    if (typeof value !== 'string') wrong(key, value, 'no text')
  }
  for (const key of ['ipam', 'dns']) {
    const value = lookUp(conf, key) ?? {}
    if (!isObject(value)) wrong(key, value, 'not an object')
  }
  const capabilities = lookUp(conf, 'capabilities') ?? {}
  if (!isObject(capabilities)) wrong('capabilities', capabilities, 'not an object', 'use { "portMappings": true }')
  else {
    for (const [name, value] of Object.entries(capabilities)) {
      if (typeof value === 'boolean') continue
      const at = [...steps, 'capabilities', name]
      const message = `${keyPathOf(at)}: ${shown(value)} is not true or false`
      faults.push({ id: 'wrong-type', message, cure: 'use true or false, without quotes', steps: at, stops: 'load' })
    }
  }
  return faults
}
