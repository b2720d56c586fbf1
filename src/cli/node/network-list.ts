// SPDX-License-Identifier: Apache-2.0
// A configuration list (.conflist) or a single configuration (.conf) as a runtime reads it: CNI spec
// 1.1.0, section 1 "Network configuration format" and section 3 "Deriving request configuration".

import { array, boolean, looseObject, record, string } from 'zod'
import { parseConfig } from '../../cni/json/config-json.ts'
import { CniError } from '../../cni/model/error.ts'
import { isSupported, supportedVersions } from '../../cni/model/version.ts'

/** One plugin of a list, as written. */
export interface PluginConf {
  readonly type: string
  readonly capabilities?: Readonly<Record<string, boolean>> | undefined
  readonly [key: string]: unknown
}

/** A network: what a runtime runs on ADD, in order. */
export interface NetworkList {
  readonly name: string
  readonly cniVersion: string
  readonly disableCheck: boolean
  readonly plugins: readonly PluginConf[]
}

/** What a runtime adds to a plugin's configuration for one call. */
export interface Injected {
  readonly capabilityArgs?: Readonly<Record<string, unknown>>
  readonly prevResult?: unknown
}

// A refinement, not `min`: zod runs its checks of length on whatever has a key `length`, and that one may throw.
const named = string().refine((text) => text !== '', 'empty')
const plugin = looseObject({ type: named, capabilities: record(string(), boolean()).optional() })

const head = {
  name: named,
  cniVersion: string().optional(),
  cniVersions: array(string()).optional(),
  disableCheck: boolean().optional(),
}

const list = looseObject({ ...head, plugins: array(plugin).refine((plugins) => plugins.length > 0, 'no plugins') })
const single = looseObject({ ...head, type: named })

/** A list from its text. Throws CniError 6 when it is not JSON, 7 when it is no network configuration. */
export function readNetworkList(text: string): NetworkList {
  const root = parseConfig(text)
  if ('plugins' in root) {
    const found = checked(list.safeParse(root))
    return { ...headOf(found), plugins: found.plugins }
  }
  const found = checked(single.safeParse(root))
  return { ...headOf(found), plugins: [plugin.parse(found)] }
}

/** What one plugin of the list gets on stdin (section 3): name and version of the list, and what the runtime adds. */
export function requestConf(network: NetworkList, conf: PluginConf, injected: Injected): Record<string, unknown> {
  const wanted = Object.entries(injected.capabilityArgs ?? {}).filter(([name]) => conf.capabilities?.[name] === true)
  return {
    ...conf,
    name: network.name,
    cniVersion: network.cniVersion,
    ...(wanted.length > 0 ? { runtimeConfig: Object.fromEntries(wanted) } : {}),
    ...(injected.prevResult === undefined ? {} : { prevResult: injected.prevResult }),
  }
}

interface Head {
  readonly name: string
  readonly cniVersion?: string | undefined
  readonly cniVersions?: readonly string[] | undefined
  readonly disableCheck?: boolean | undefined
}

function headOf({ name, cniVersion, cniVersions, disableCheck }: Head): Omit<NetworkList, 'plugins'> {
  const newest = supportedVersions.findLast((version) => cniVersions?.includes(version))
  // Without a version libcni takes the oldest one (cni pkg/version, ConfigDecoder).
  const version = newest ?? cniVersion ?? '0.1.0'
  if (!isSupported(version))
    throw new CniError('version-unsupported', `cniVersion "${version}" is not supported`, {
      details: `supported: ${supportedVersions.join(', ')}`,
    })
  return { name, cniVersion: version, disableCheck: disableCheck ?? false }
}

type Parsed<T> =
  | { success: true; data: T }
  | { success: false; error: { issues: readonly { path: PropertyKey[]; message: string }[] } }

function checked<T>(parsed: Parsed<T>): T {
  if (parsed.success) return parsed.data
  const lines = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the whole'}: ${message}`)
  throw new CniError('list-invalid', `this is no network configuration: ${lines[0]}`, {
    details: lines.join('\n'),
  })
}
