// SPDX-License-Identifier: Apache-2.0
// libcni's reading of a file: it loads, or fails for a reason, in libcni's own words if they are useful. Source:
// containernetworking/cni v1.3.1, libcni/conf.go (NetworkConfFromBytes, NetworkPluginConfFromBytes).

import { array, boolean, literal, looseObject, record, string, unknown, type ZodType } from 'zod'
import { keyShapeOf, withKnownKeys } from '../../cni/json/json-keys.ts'
import { isObject } from '../../cni/json/json-object.ts'

/** `version`: empty if the file has none. `types`: of its plugins, in order. */
export interface Loaded {
  readonly name: string
  readonly version: string
  readonly types: readonly string[]
  /** False: the folder named after the network may have further plugins. */
  readonly isWhole: boolean
}

/** The reason of a file that does not load. */
export interface NotLoaded {
  readonly problem: string
}

const isVersion = (text: string): boolean => /^\d+(\.\d+){0,2}$/.test(text)

/** The types that Go's decoder requires of one plugin (types.PluginConf). Keys match without case. */
const plugin = looseObject({
  cniVersion: string().optional(),
  name: string().optional(),
  type: string().optional(),
  capabilities: record(string(), boolean()).optional(),
  ipam: looseObject({ type: string().optional() }).optional(),
  dns: looseObject({
    nameservers: array(string()).optional(),
    domain: string().optional(),
    search: array(string()).optional(),
    options: array(string()).optional(),
  }).optional(),
  prevResult: record(string(), unknown()).optional(),
})
const pluginKeys = keyShapeOf(plugin)

const switchValue = boolean().or(literal(['true', 'false', 'TRUE', 'FALSE', 'True', 'False']))

/** A list, whose keys match exactly. */
const list = looseObject({
  name: string('no name'),
  cniVersion: string().optional(),
  cniVersions: array(string().refine(isVersion, 'invalid cniVersions entry')).optional(),
  disableCheck: switchValue.optional(),
  disableGC: switchValue.optional(),
  loadOnlyInlinedPlugins: switchValue.optional(),
  // Not `min`, which zod also runs on values that are no list and have a key `length`.
  plugins: array(unknown())
    .refine((plugins) => plugins.length > 0, 'no plugins in list')
    .optional(),
})

/** Loads the text of a .conflist file. */
export function loadList(text: string): Loaded | NotLoaded {
  const root = parsed(text)
  const read = check(list, root)
  if ('problem' in read) return read
  const { name, plugins, loadOnlyInlinedPlugins = false } = read.value
  const version = versionOf(read.value)
  const isWhole = loadOnlyInlinedPlugins === true || String(loadOnlyInlinedPlugins).toLowerCase() === 'true'
  if (plugins === undefined) {
    if (isWhole) return { problem: "`loadOnlyInlinedPlugins` is true, and no 'plugins' key" }
    return { name, version, types: [], isWhole }
  }
  const types: string[] = []
  for (const [index, conf] of plugins.entries()) {
    const loaded = loadPlugin(conf)
    if ('problem' in loaded) return { problem: `plugins[${index}]: ${loaded.problem}` }
    types.push(loaded.type)
  }
  return { name, version, types, isWhole }
}

/** Loads the text of a .conf or .json file: one plugin. */
export function loadSingle(text: string): Loaded | NotLoaded {
  const loaded = loadPlugin(parsed(text))
  if ('problem' in loaded) return loaded
  return { name: loaded.name, version: loaded.version, types: [loaded.type], isWhole: true }
}

function loadPlugin(conf: unknown): { type: string; name: string; version: string } | NotLoaded {
  const read = check(plugin, withKnownKeys(conf, pluginKeys))
  if ('problem' in read) return read
  const { type = '', name = '', cniVersion = '' } = read.value
  return type === '' ? { problem: "missing 'type'" } : { type, name, version: cniVersion }
}

/** The newest version up to libcni's own, 1.1.0; without such a version, the list's cniVersion. */
function versionOf({
  cniVersion = '',
  cniVersions,
}: {
  cniVersion?: string | undefined
  cniVersions?: string[] | undefined
}) {
  if (cniVersions === undefined) return cniVersion
  const known = [...cniVersions, cniVersion].filter(
    (version) => version !== '' && numberOf(version) <= numberOf('1.1.0'),
  )
  return known.toSorted((a, b) => numberOf(a) - numberOf(b)).at(-1) ?? cniVersion
}

function numberOf(version: string): number {
  const [major = 0, minor = 0, micro = 0] = version.split('.').map(Number)
  return major * 1e6 + minor * 1e3 + micro
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function check<T>(schema: ZodType<T>, value: unknown): { readonly value: T } | NotLoaded {
  if (value === undefined) return { problem: 'it is not JSON' }
  if (!isObject(value)) return { problem: 'it is no object' }
  const read = schema.safeParse(value)
  if (read.success) return { value: read.data }
  const [issue] = read.error.issues
  return { problem: `${(issue?.path ?? []).join('.')}: ${issue?.message ?? 'not valid'}` }
}
