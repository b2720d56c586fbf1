// SPDX-License-Identifier: Apache-2.0
// The file of a directory that each runtime uses. Pure. Sources: containerd/go-cni v1.1.14 opts.go (loadFromConfDir,
// max_conf_num 1), cri-o/ocicni 18fd1eb ocicni.go (loadNetworks), containernetworking/cni v1.3.1 libcni/conf.go
// (LoadNetworkConf).

import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { array, boolean, literal, looseObject, record, string, unknown, type ZodType } from 'zod'
import { keyShapeOf, withKnownKeys } from '../../cni/fields.ts'
import { isObject } from '../../cni/json.ts'
import { orElse } from '../if-there.ts'

/** A file that a runtime may read. `programProblem`: CRI-O's reason to skip it. */
export interface Candidate {
  readonly name: string
  readonly load: Loaded | NotLoaded
  readonly programProblem?: string | undefined
}

/** The file that a runtime uses for a network, or the reason for having none. */
export type Choice =
  | { readonly file: string; readonly network: string }
  | { readonly file?: undefined; readonly reason: string; readonly stoppedBy?: string }

/** The choices of all three. `skipped`: by CRI-O, with the reason. */
export interface Prediction {
  readonly containerd: Choice
  readonly crio: Choice
  readonly skipped: readonly { readonly file: string; readonly reason: string }[]
  readonly cnitool: readonly { readonly network: string; readonly choice: Choice }[]
}

/** The order of Go's sort.Strings: by bytes. */
function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** The end of a name from its last dot on (Go's filepath.Ext). */
export function extensionOf(name: string): string {
  const dot = name.lastIndexOf('.')
  return dot < 0 ? '' : name.slice(dot)
}

/** Whether containerd and CRI-O ask libcni's ConfFiles for such a file. */
export function isConfigurationName(name: string): boolean {
  return ['.conf', '.conflist', '.json'].includes(extensionOf(name))
}

/** Settings of the runtimes: containerd's number of files (0: all), CRI-O's network. */
export interface RuntimeSettings {
  readonly maxConfNum?: number | undefined
  readonly defaultNetwork?: string | undefined
}

export function predict(
  files: readonly Candidate[],
  { maxConfNum = 1, defaultNetwork }: RuntimeSettings = {},
): Prediction {
  const sorted = files.toSorted((a, b) => byBytes(a.name, b.name))
  const skipped = sorted.flatMap((file) => {
    const reason = problemOf(file) ?? file.programProblem
    return reason === undefined ? [] : [{ file: file.name, reason }]
  })
  const networks = [
    ...new Set(sorted.flatMap(({ load }) => ('problem' in load || load.name === '' ? [] : [load.name]))),
  ]
  return {
    containerd: containerdOf(maxConfNum > 0 ? sorted.slice(0, maxConfNum) : sorted),
    crio: crioOf(
      sorted.filter((file) => !skipped.some((each) => each.file === file.name)),
      defaultNetwork,
    ),
    skipped,
    cnitool: networks.map((network) => ({ network, choice: cnitoolOf(sorted, network) })),
  }
}

function problemOf({ load }: Candidate): string | undefined {
  return 'problem' in load ? load.problem : undefined
}

/** The first file; none if one of the loaded files is broken. */
function containerdOf(files: readonly Candidate[]): Choice {
  const [first] = files
  if (first === undefined) return { reason: 'there is no configuration' }
  for (const { name, load } of files) {
    if ('problem' in load) return { reason: `${name}: ${load.problem}`, stoppedBy: name }
  }
  return { file: first.name, network: 'problem' in first.load ? '' : first.load.name }
}

/**
 * The first valid file whose plugins exist, or the file with the network's name. A network without a name has the
 * file's.
 */
function crioOf(files: readonly Candidate[], defaultNetwork = ''): Choice {
  const named = files.map(({ name, load }) => ({ file: name, network: ('problem' in load ? '' : load.name) || name }))
  const found = defaultNetwork === '' ? named[0] : named.find(({ network }) => network === defaultNetwork)
  if (found !== undefined) return found
  if (named.length === 0) return { reason: 'there is no configuration that it takes' }
  return { reason: `cni_default_network is ${defaultNetwork}, and no file that it takes has that network` }
}

/** Lists first, then single configurations, up to the file with the name; a broken file before it stops the search. */
function cnitoolOf(sorted: readonly Candidate[], network: string): Choice {
  const isList = ({ name }: Candidate) => extensionOf(name) === '.conflist'
  const order = [...sorted.filter(isList), ...sorted.filter((file) => !isList(file))]
  for (const { name, load } of order) {
    if ('problem' in load) return { reason: `${name}: ${load.problem}`, stoppedBy: name }
    if (load.name === network) return { file: name, network }
  }
  return { reason: `there is no network ${network}` }
}

export function pluginFilesOf(directory: string, load: Loaded | NotLoaded): readonly string[] {
  if ('problem' in load || load.isWhole || load.name.includes('/')) return []
  const folder = join(directory, load.name)
  // A folder that cannot be read is as none.
  const names = orElse(() => filesIn(folder), [])
  return names.filter((name) => extensionOf(name) === '.conf').map((name) => join(folder, name))
}

export function hasPluginFiles(file: string, text: string): boolean {
  return extensionOf(file) === '.conflist' && pluginFilesOf(dirname(file), loadList(text)).length > 0
}

/** The names in a directory in Go's order, without directories; a link to a directory does not count as one, as in Go. */
export function filesIn(directory: string): readonly string[] {
  const entries = readdirSync(directory, { withFileTypes: true }).filter((entry) => !entry.isDirectory())
  return entries.map(({ name }) => name).toSorted(byBytes)
}

// libcni's reading of a file: it loads, or fails for a reason, in libcni's own words if they are useful. Source:
// containernetworking/cni v1.3.1, libcni/conf.go (NetworkConfFromBytes, NetworkPluginConfFromBytes).

/** `version`: empty if the file has none. `types`: of its plugins, in order. */
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

/** Loads a file as its name says. */
export function loadFile(name: string, text: string): Loaded | NotLoaded {
  return extensionOf(name) === '.conflist' ? loadList(text) : loadSingle(text)
}

export function loadList(text: string): Loaded | NotLoaded {
  const read = check(
    list,
    orElse(() => JSON.parse(text) as unknown, undefined),
  )
  if ('problem' in read) return read
  const { name, plugins, cniVersion: version = '', loadOnlyInlinedPlugins = false } = read.value
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
  const loaded = loadPlugin(orElse(() => JSON.parse(text) as unknown, undefined))
  if ('problem' in loaded) return loaded
  return { name: loaded.name, version: loaded.version, types: [loaded.type], isWhole: true }
}

function loadPlugin(conf: unknown): { type: string; name: string; version: string } | NotLoaded {
  const read = check(plugin, withKnownKeys(conf, pluginKeys))
  if ('problem' in read) return read
  const { type = '', name = '', cniVersion = '' } = read.value
  return type === '' ? { problem: "missing 'type'" } : { type, name, version: cniVersion }
}

function check<T>(schema: ZodType<T>, value: unknown): { readonly value: T } | NotLoaded {
  if (value === undefined) return { problem: 'it is not JSON' }
  if (!isObject(value)) return { problem: 'it is no object' }
  const read = schema.safeParse(value)
  if (read.success) return { value: read.data }
  const [issue] = read.error.issues
  return { problem: `${(issue?.path ?? []).join('.')}: ${issue?.message ?? 'not valid'}` }
}
