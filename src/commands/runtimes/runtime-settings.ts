// SPDX-License-Identifier: Apache-2.0
// CNI settings of a runtime, from containerd's and CRI-O's TOML and from containerd's answer to CRI Status. Sources:
// containerd docs/cri/config.md and internal/cri/config; crio.conf(5), table crio.network.

import { dirname, join } from 'node:path'
import { isObject, parseObject } from '../../cni/json.ts'
import { flagOf, type RuntimeProcess } from './processes.ts'
import { readWithDropIns, readWithImports, type Table, TomlError } from './toml-file.ts'

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
  const config = parseObject(info['config'] ?? '')
  return child(config, 'cni') === undefined ? undefined : settingsOf(config ?? {})
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
  return {
    confDir: trimmed(textOf(cni['conf_dir']) ?? textOf(cni['confDir']) ?? defaultConfDir),
    binDirs: withDefault([...texts(cni['bin_dirs'] ?? cni['binDirs']), ...texts([cni['bin_dir'] ?? cni['binDir']])]),
    maxConfNum: Number(maxConfNum),
    ...((cni['use_internal_loopback'] ?? cni['useInternalLoopback']) === true ? { hasInternalLoopback: true } : {}),
  }
}

function child(table: Table | undefined, key: string): Table | undefined {
  const value = table?.[key]
  return isObject(value) ? value : undefined
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

// The configuration files of containerd and CRI-O: the files that a process reads, their settings, and the file to
// edit.

/** The file to edit, and the command that makes the runtime read it. */
export interface Edit {
  readonly file: string
  readonly restart: string
}

/** Settings from files. `problem`: the reason why a file was unreadable; then the settings are the defaults. */
export interface FileSettings {
  readonly settings: CniSettings
  readonly files: readonly string[]
  readonly edit: Edit
  readonly problem?: TomlError
  /** containerd: its socket, and whether it serves CRI. */
  readonly address: string
  readonly hasCri: boolean
}

type Process = Pick<RuntimeProcess, 'args' | 'root'>

const stopped: Process = { args: [], root: '' }

/** containerd's settings from the files of a process, or without a process from the files of its next start. */
export function containerdFiles({ args, root }: Process = stopped): FileSettings {
  const file = flagOf(args, ['c', 'config']) ?? '/etc/containerd/config.toml'
  const { table, files, problem } = attempt(() => readWithImports(file, root))
  const version = Number(table['version'] ?? 1)
  return {
    settings: containerdSettings(table),
    files,
    edit: editOf(file, version),
    ...(problem === undefined ? {} : { problem }),
    address: flagOf(args, ['a', 'address']) ?? containerdAddress(table) ?? '/run/containerd/containerd.sock',
    hasCri: hasCri(table),
  }
}

/** CRI-O's settings from files, as for containerd. */
export function crioFiles({ args, root }: Process = stopped): FileSettings {
  const file = flagOf(args, ['c', 'config']) ?? '/etc/crio/crio.conf'
  const directory = flagOf(args, ['d', 'config-dir']) ?? '/etc/crio/crio.conf.d'
  const { table, files, problem } = attempt(() => readWithDropIns(file, directory, root))
  return {
    settings: crioSettings(table, (name) => flagOf(args, [name])),
    files,
    edit: { file: join(directory, '99-cni.conf'), restart: 'systemctl restart crio' },
    ...(problem === undefined ? {} : { problem }),
    address: flagOf(args, ['listen']) ?? '/run/crio/crio.sock',
    hasCri: true,
  }
}

/** cri-dockerd has flags only. */
export function criDockerdFiles({ args }: Process = stopped): FileSettings {
  const binDirs = (flagOf(args, ['cni-bin-dir']) ?? '/opt/cni/bin').split(',')
  return {
    settings: { confDir: flagOf(args, ['cni-conf-dir']) ?? '/etc/cni/net.d', binDirs },
    files: [],
    edit: { file: 'the flags of cri-dockerd', restart: 'systemctl restart cri-docker' },
    address: (flagOf(args, ['container-runtime-endpoint']) ?? '/run/cri-dockerd.sock').replace(/^unix:\/\//, ''),
    hasCri: true,
  }
}

/**
 * The file to edit. k3s and rke2 write containerd's file at each start from a template, whose name depends on the
 * version (docs.k3s.io/advanced, "Configuring containerd").
 */
export function editOf(file: string, version: number): Edit {
  const owner =
    /\/rancher\/(k3s|rke2)\//.exec(file)?.[1] ?? (/\/agent\/etc\/containerd\//.test(file) ? 'k3s' : undefined)
  if (owner !== undefined) {
    const template = version >= 3 ? 'config-v3.toml.tmpl' : 'config.toml.tmpl'
    return {
      file: join(dirname(file), template),
      restart: `systemctl try-restart ${owner === 'k3s' ? 'k3s k3s-agent' : 'rke2-server rke2-agent'}`,
    }
  }
  return { file, restart: 'systemctl restart containerd' }
}

/** A missing file means defaults, for containerd and for CRI-O. */
function attempt(read: () => ReturnType<typeof readWithImports>): ReturnType<typeof readWithImports> & {
  readonly problem?: TomlError
} {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    return error.isMissing ? { table: {}, files: [] } : { table: {}, files: [], problem: error }
  }
}
