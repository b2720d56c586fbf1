// SPDX-License-Identifier: Apache-2.0
// CNI settings of a runtime, from containerd's and CRI-O's TOML and from containerd's answer to CRI Status. Sources:
// containerd docs/cri/config.md and internal/cri/config; crio.conf(5), table crio.network.

import { isObject } from '../../cni/json/json-object.ts'
import type { Table } from './toml-file.ts'

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
    ...((cni['use_internal_loopback'] ?? cni['useInternalLoopback']) === true ? { hasInternalLoopback: true } : {}),
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
