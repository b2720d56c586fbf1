// SPDX-License-Identifier: Apache-2.0
// CNI settings of a runtime, as it tells them itself. Sources: containerd docs/cri/config.md and internal/cri/config;
// crio.conf(5).

import { asObject, isObject, type JsonObject, parseObject } from '../../cni/json.ts'

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

export const defaultSettings: CniSettings = { confDir: defaultConfDir, binDirs: [defaultBinDir] }

/** The settings in containerd's verbose answer to CRI Status; undefined without any. */
export function statusSettings(info: Readonly<Record<string, string>>): CniSettings | undefined {
  const config = parseObject(info['config'] ?? '')
  const cni = config?.['cni']
  if (!isObject(cni)) return undefined
  const single = textOf(cni['binDir'])
  return {
    confDir: trimmed(textOf(cni['confDir']) ?? defaultConfDir),
    binDirs: withDefault([...texts(cni['binDirs']), ...(single === undefined ? [] : [single])]),
    maxConfNum: Number(cni['maxConfNum'] ?? 1),
    ...(cni['useInternalLoopback'] === true ? { hasInternalLoopback: true } : {}),
  }
}

/** The settings in CRI-O's TOML. */
export function crioSettings(table: JsonObject): CniSettings {
  const network = asObject(asObject(table['crio'])['network'])
  const defaultNetwork = textOf(network['cni_default_network'])
  return {
    confDir: trimmed(textOf(network['network_dir']) ?? defaultConfDir),
    // CRI-O reads the older key beside the newer one.
    binDirs: withDefault([...texts(network['plugin_dirs']), ...texts([network['plugin_dir']])]),
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
