// SPDX-License-Identifier: Apache-2.0
// CNI settings of a runtime, from containerd's answer to CRI Status, and from containerd's and CRI-O's TOML. Sources:
// containerd docs/cri/config.md, internal/cri/config and cmd/containerd/server/config (imports); crio.conf(5).

import { globSync, readFileSync, statSync } from 'node:fs'
import { dirname, isAbsolute, join } from 'node:path'
import { parse } from 'smol-toml'
import { asObject, isObject, type JsonObject, parseObject } from '../../cni/json.ts'
import { flagOf, type RuntimeProcess } from './processes.ts'

/** A runtime's directories, and its other settings that select the network. */
export interface CniSettings {
  readonly confDir: string
  /** In the order of the search. */
  readonly binDirs: readonly string[]
  /** containerd: the number of files that it loads; 0: all. */
  readonly maxConfNum?: number
  /** containerd sets `lo` up itself, and calls no plugin `loopback`. */
  readonly hasInternalLoopback?: true
  /** CRI-O: the network that it uses regardless of the order of files. */
  readonly defaultNetwork?: string
}

export const defaultConfDir = '/etc/cni/net.d'
export const defaultBinDir = '/opt/cni/bin'

/** The CRI plugin's table in version 3 and later, in version 2 and in version 1. */
const criTables = ['io.containerd.cri.v1.runtime', 'io.containerd.grpc.v1.cri', 'cri']

/** The settings in containerd's TOML. */
export function containerdSettings(table: JsonObject): CniSettings {
  const plugins = asObject(table['plugins'])
  return settingsOf(asObject(criTables.map((name) => plugins[name]).find(isObject)))
}

/** The settings in containerd's verbose answer to CRI Status, whose keys are in camel case; undefined without any. */
export function statusSettings(info: Readonly<Record<string, string>>): CniSettings | undefined {
  const config = parseObject(info['config'] ?? '')
  return isObject(config?.['cni']) ? settingsOf(config) : undefined
}

function settingsOf(cri: JsonObject): CniSettings {
  const cni = asObject(cri['cni'])
  const single = textOf(cni['bin_dir'] ?? cni['binDir'])
  return {
    confDir: trimmed(textOf(cni['conf_dir'] ?? cni['confDir']) ?? defaultConfDir),
    binDirs: withDefault([...texts(cni['bin_dirs'] ?? cni['binDirs']), ...(single === undefined ? [] : [single])]),
    maxConfNum: Number(cni['max_conf_num'] ?? cni['maxConfNum'] ?? 1),
    ...((cni['use_internal_loopback'] ?? cni['useInternalLoopback']) === true ? { hasInternalLoopback: true } : {}),
  }
}

/** The settings in CRI-O's TOML. `flag`: the value of a flag, which overrides the file. */
export function crioSettings(table: JsonObject, flag: (name: string) => string | undefined): CniSettings {
  const network = asObject(asObject(table['crio'])['network'])
  const dirs = flag('cni-plugin-dir')?.split(',') ?? texts(network['plugin_dirs'])
  const defaultNetwork = flag('cni-default-network') ?? textOf(network['cni_default_network'])
  return {
    confDir: trimmed(flag('cni-config-dir') ?? textOf(network['network_dir']) ?? defaultConfDir),
    // CRI-O reads the older key beside the newer one.
    binDirs: withDefault([...dirs, ...texts([network['plugin_dir']])]),
    ...(defaultNetwork === undefined ? {} : { defaultNetwork }),
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

/** Settings from files. `problem`: why a file was unreadable; then the settings are the defaults. */
export interface FileSettings {
  readonly settings: CniSettings
  readonly files: readonly string[]
  /** The file to edit, and the command that makes the runtime read it. */
  readonly edit: { readonly file: string; readonly restart: string }
  readonly problem?: { readonly message: string; readonly isDenied: boolean }
  readonly address: string
  /** containerd: whether it serves CRI; Docker's package disables that. */
  readonly hasCri: boolean
}

type Process = Pick<RuntimeProcess, 'args' | 'root'>

const stopped: Process = { args: [], root: '' }

/** containerd's settings from the files of a process, or without a process from the files of its next start. */
export function containerdFiles({ args, root }: Process = stopped): FileSettings {
  const file = flagOf(args, ['c', 'config']) ?? '/etc/containerd/config.toml'
  const { table, files, problem } = readToml([file], root)
  const disabled = texts(table['disabled_plugins'])
  const ofPlugin = asObject(asObject(table['plugins'])['io.containerd.server.v1.grpc'])
  const address = textOf(ofPlugin['address']) ?? textOf(asObject(table['grpc'])['address'])
  return {
    settings: containerdSettings(table),
    files,
    edit: editOf(file, Number(table['version'] ?? 1)),
    ...(problem === undefined ? {} : { problem }),
    address: flagOf(args, ['a', 'address']) ?? address ?? '/run/containerd/containerd.sock',
    hasCri: !criTables.some((name) => disabled.includes(name)),
  }
}

/** CRI-O's settings from files, as for containerd: drop-ins override the file. */
export function crioFiles({ args, root }: Process = stopped): FileSettings {
  const file = flagOf(args, ['c', 'config']) ?? '/etc/crio/crio.conf'
  const directory = flagOf(args, ['d', 'config-dir']) ?? '/etc/crio/crio.conf.d'
  const { table, files, problem } = readToml([file, ...matching(`${directory}/*`, root)], root)
  return {
    settings: crioSettings(table, (name) => flagOf(args, [name])),
    files,
    edit: { file: join(directory, '99-cni.conf'), restart: 'systemctl restart crio' },
    ...(problem === undefined ? {} : { problem }),
    address: flagOf(args, ['listen']) ?? '/run/crio/crio.sock',
    hasCri: true,
  }
}

/**
 * The file to edit. k3s and rke2 write containerd's file at each start from a template, whose name depends on the
 * version (docs.k3s.io/advanced, "Configuring containerd").
 */
export function editOf(file: string, version: number): FileSettings['edit'] {
  const owner =
    /\/rancher\/(k3s|rke2)\//.exec(file)?.[1] ?? (/\/agent\/etc\/containerd\//.test(file) ? 'k3s' : undefined)
  if (owner === undefined) return { file, restart: 'systemctl restart containerd' }
  const template = join(dirname(file), version >= 3 ? 'config-v3.toml.tmpl' : 'config.toml.tmpl')
  const units = owner === 'k3s' ? 'k3s k3s-agent' : 'rke2-server rke2-agent'
  return { file: template, restart: `systemctl try-restart ${units}` }
}

/** A bound that no configuration reaches, so that a device or a log is not read to its end. */
const longestBytes = 8 * 1024 * 1024

/** The files that exist, with containerd's `imports`, each once; later ones override. A missing file means defaults. */
function readToml(
  names: readonly string[],
  root: string,
): Pick<FileSettings, 'files' | 'problem'> & { table: JsonObject } {
  const pending = [...names]
  const files: string[] = []
  let table: JsonObject = {}
  for (const file of pending) {
    const path = join(root, file)
    const stat = statSync(path, { throwIfNoEntry: false })
    if (stat === undefined || files.includes(file)) continue
    try {
      if (!stat.isFile() || stat.size > longestBytes) throw new Error('it is no regular file, or too long')
      const read = parse(readFileSync(path, 'utf8')) as JsonObject
      table = merged(table, read)
      files.push(file)
      for (const each of texts(read['imports'])) {
        pending.push(...matching(isAbsolute(each) ? each : join(dirname(file), each), root))
      }
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      const isDenied = code === 'EACCES' || code === 'EPERM'
      return { table: {}, files: [], problem: { message: `${file}: ${message.split('\n')[0]}`, isDenied } }
    }
  }
  return { table, files }
}

function matching(pattern: string, root: string): readonly string[] {
  const found = globSync(pattern.slice(1), { cwd: join(root, '/') })
  return found.toSorted().map((name) => `/${name}`)
}

/** Joins lists, merges tables and replaces other values. */
function merged(to: JsonObject, from: JsonObject): JsonObject {
  const both: Record<string, unknown> = { ...to }
  for (const [key, value] of Object.entries(from)) {
    const old = to[key]
    if (Array.isArray(old) && Array.isArray(value)) both[key] = [...new Set([...old, ...value])]
    else both[key] = isObject(old) && isObject(value) ? merged(old, value) : value
  }
  return both
}
