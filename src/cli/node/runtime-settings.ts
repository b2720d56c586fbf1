// SPDX-License-Identifier: Apache-2.0
// CNI settings of a runtime, from containerd's and CRI-O's TOML and from containerd's answer to CRI Status. Sources:
// containerd docs/cri/config.md and internal/cri/config; crio.conf(5), table crio.network.

import { readFileSync, statSync } from 'node:fs'
import { dirname, isAbsolute, join } from 'node:path'
import { parse } from 'smol-toml'
import { isObject } from '../../cni/json/json-object.ts'
import { namesIfThere } from '../../system/files/if-there.ts'

/** A runtime's directories, and its other settings that select the network. */
export interface CniSettings {
  readonly confDir: string
  /** In the order of the search. */
  readonly binDirs: readonly string[]
  /** containerd: the number of files that it loads; 0: all. */
  readonly maxConfNum?: number
  /** CRI-O: the network that it uses regardless of the order of files. */
  readonly defaultNetwork?: string
  /** containerd: directories for pods of a runtime handler. */
  readonly ofHandlers?: readonly { readonly handler: string; readonly confDir: string }[]
}

export const defaultConfDir = '/etc/cni/net.d'
export const defaultBinDir = '/opt/cni/bin'

/** The CRI plugin's table in version 3 and later, in version 2 and in version 1. */
const criTables = ['io.containerd.cri.v1.runtime', 'io.containerd.grpc.v1.cri', 'cri']

/** The settings in containerd's TOML, or in the JSON of CRI Status, whose keys are in camel case. */
export function containerdSettings(table: Table): CniSettings {
  const cri = criTables.map((name) => child(child(table, 'plugins'), name)).find((each) => each !== undefined)
  return settingsOf(cri ?? {})
}

/** False if CRI is disabled, as in Docker's package of containerd. */
export function hasCri(table: Table): boolean {
  const disabled = Array.isArray(table['disabled_plugins']) ? table['disabled_plugins'] : []
  return !['cri', 'io.containerd.grpc.v1.cri', 'io.containerd.cri.v1.runtime'].some((name) => disabled.includes(name))
}

/** The socket of this containerd; undefined if its file has none. */
export function containerdAddress(table: Table): string | undefined {
  const ofPlugin = child(child(table, 'plugins'), 'io.containerd.server.v1.grpc')
  return textOf(ofPlugin?.['address']) ?? textOf(child(table, 'grpc')?.['address'])
}

/**
 * The settings in containerd's verbose answer to CRI Status; undefined for an answer without settings, like CRI-O's.
 */
export function statusSettings(info: Readonly<Record<string, string>>): CniSettings | undefined {
  const config = parsed(info['config'])
  return child(config, 'cni') === undefined ? undefined : settingsOf(config ?? {})
}

/** The last load of containerd: the names of its networks without its own loopback, and the error of the load. */
export function statusLoad(info: Readonly<Record<string, string>>): {
  readonly networks: readonly string[]
  readonly problem?: string
} {
  const networks = parsed(info['cniconfig'])?.['Networks']
  const names = (Array.isArray(networks) ? networks : []).flatMap((each: unknown) => {
    const name = isObject(each) ? child(each, 'Config')?.['Name'] : undefined
    return typeof name === 'string' && name !== 'cni-loopback' ? [name] : []
  })
  const loadStatus = info['lastCNILoadStatus']
  return loadStatus === undefined || loadStatus === '' || loadStatus === 'OK'
    ? { networks: names }
    : { networks: names, problem: loadStatus }
}

/** The settings in CRI-O's TOML. `flagOf`: value of a flag, which overrides the file. */
export function crioSettings(table: Table, flagOf: (name: string) => string | undefined): CniSettings {
  const network = child(child(table, 'crio'), 'network') ?? {}
  const dirs = flagOf('cni-plugin-dir')?.split(',') ?? texts(network['plugin_dirs'])
  const defaultNetwork = flagOf('cni-default-network') ?? textOf(network['cni_default_network'])
  return {
    confDir: trimmed(flagOf('cni-config-dir') ?? textOf(network['network_dir']) ?? defaultConfDir),
    // CRI-O reads the older key beside the newer one.
    binDirs: withDefault([...dirs, ...texts([network['plugin_dir']])]),
    ...(defaultNetwork === undefined ? {} : { defaultNetwork }),
  }
}

function settingsOf(cri: Table): CniSettings {
  const cni = child(cri, 'cni') ?? {}
  const maxConfNum = cni['max_conf_num'] ?? cni['maxConfNum'] ?? 1
  const ofHandlers = handlerDirs(cri)
  return {
    confDir: trimmed(textOf(cni['conf_dir']) ?? textOf(cni['confDir']) ?? defaultConfDir),
    binDirs: withDefault([...texts(cni['bin_dirs'] ?? cni['binDirs']), ...texts([cni['bin_dir'] ?? cni['binDir']])]),
    maxConfNum: Number(maxConfNum),
    ...(ofHandlers.length > 0 ? { ofHandlers } : {}),
  }
}

/** `containerd.runtimes.NAME.cni_conf_dir`. */
function handlerDirs(cri: Table): readonly { readonly handler: string; readonly confDir: string }[] {
  const runtimes = child(child(cri, 'containerd'), 'runtimes') ?? {}
  return Object.entries(runtimes).flatMap(([handler, runtime]) => {
    const confDir = isObject(runtime) ? (textOf(runtime['cni_conf_dir']) ?? textOf(runtime['cniConfDir'])) : undefined
    return confDir === undefined ? [] : [{ handler, confDir: trimmed(confDir) }]
  })
}

function child(table: Table | undefined, key: string): Table | undefined {
  const value = table?.[key]
  return isObject(value) ? value : undefined
}

function parsed(text: string | undefined): Table | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function texts(value: unknown): readonly string[] {
  return (Array.isArray(value) ? value : []).flatMap((each) => textOf(each) ?? [])
}

function withDefault(dirs: readonly string[]): readonly string[] {
  const all = [...new Set(dirs.map(trimmed))]
  return all.length > 0 ? all : [defaultBinDir]
}

function trimmed(path: string): string {
  return path.length > 1 ? path.replace(/\/+$/, '') : path
}

// TOML files of a runtime with their imports: containerd's `imports` (cmd/containerd/server/config, resolveImports and
// mergeConfig) and CRI-O's drop-ins (crio.conf.d(5)).

/** A TOML table, of JSON's types and dates. */
type Table = Readonly<Record<string, unknown>>

/** The merged table, and its files in the order of reading. */
interface ReadToml {
  readonly table: Table
  readonly files: readonly string[]
}

/** A file is missing, unreadable, or invalid TOML. `isDenied`: the file's mode denies access. */
export class TomlError extends Error {
  readonly isDenied: boolean
  readonly isMissing: boolean
  constructor(file: string, cause: unknown) {
    const { code, message } = cause as NodeJS.ErrnoException
    super(`${file}: ${message.split('\n')[0]}`, { cause })
    this.name = 'TomlError'
    this.isDenied = code === 'EACCES' || code === 'EPERM'
    this.isMissing = code === 'ENOENT'
  }
}

/** A bound that no configuration reaches, so that a device or a log is not read to its end. */
const longestBytes = 8 * 1024 * 1024
const mostFiles = 200

/** The table of one text. Throws TomlError with line and column. `file`: the file's name in the error. */
export function tableOf(text: string, file: string): Table {
  try {
    return parse(text) as Table
  } catch (error) {
    throw new TomlError(file, error)
  }
}

/**
 * A file with its `imports`, each once; later files override earlier ones. `root`: prefix of paths. Throws TomlError
 * for the file and for each missing import that is no pattern, as containerd does.
 */
export function readWithImports(file: string, root: string): ReadToml {
  const pending = [file]
  const files: string[] = []
  let table: Table = {}
  for (const next of pending) {
    if (files.includes(next) || files.length >= mostFiles) continue
    const read = tableOf(textBelow(root, next), next)
    table = merged(table, read)
    files.push(next)
    const imports = Array.isArray(read['imports']) ? read['imports'].filter((each) => typeof each === 'string') : []
    pending.push(...imports.flatMap((each) => resolved(each, next, root)))
  }
  return { table, files }
}

/** An optional file, overridden by the files of a directory in the order of their names. Throws TomlError. */
export function readWithDropIns(file: string, directory: string, root: string): ReadToml {
  const names = namesIfThere(join(root, directory)).toSorted()
  const all = [file, ...names.map((name) => join(directory, name))]
  const files = all.filter((each) => statSync(join(root, each), { throwIfNoEntry: false })?.isFile() === true)
  const table = files.reduce<Table>((so, each) => merged(so, tableOf(textBelow(root, each), each)), {})
  return { table, files }
}

/** Joins lists, merges tables and replaces other values. */
export function merged(to: Table, from: Table): Table {
  const both = Object.entries(from).map(([key, value]) => {
    const old = to[key]
    if (Array.isArray(old) && Array.isArray(value)) return [key, [...new Set([...old, ...value])]] as const
    return [key, isObject(old) && isObject(value) ? merged(old, value) : value] as const
  })
  return { ...to, ...Object.fromEntries(both) }
}

function textBelow(root: string, file: string): string {
  try {
    const path = join(root, file)
    const { size, mode } = statSync(path)
    if ((mode & 0o170000) !== 0o100000) throw new Error('it is no regular file')
    if (size > longestBytes) throw new Error(`it has ${size} bytes`)
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new TomlError(file, error)
  }
}

/** Expands a pattern. Only * and ? in the last part of the path are supported. */
function resolved(path: string, parent: string, root: string): readonly string[] {
  const whole = isAbsolute(path) ? join(path) : join(dirname(parent), path)
  if (!whole.includes('*')) return [whole]
  const directory = dirname(whole)
  const pattern = whole.slice(directory.length + 1).replace(/[.+^${}()|[\]\\]/g, '\\$&')
  const matches = new RegExp(`^${pattern.replaceAll('*', '[^/]*').replaceAll('?', '[^/]')}$`)
  return namesIfThere(join(root, directory))
    .filter((name) => matches.test(name))
    .toSorted()
    .map((name) => join(directory, name))
}
