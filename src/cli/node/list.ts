// SPDX-License-Identifier: Apache-2.0
// A runtime in small: runs the plugins of a list as libcni does (CNI spec 1.1.0, sections 2 and 3).
// A plugin with one of this program's names is this program itself; others are looked up in CNI_PATH.

import { array, boolean, looseObject, record, string } from 'zod'
import { parseConfig } from '../../cni/json/config-json.ts'
import { isObject } from '../../cni/json/json-object.ts'
import { CniError } from '../../cni/model/error.ts'
import { type ErrorId, isErrorId } from '../../cni/model/error-code.ts'
import type { Verb } from '../../cni/model/invocation.ts'
import { ownType } from '../../cni/model/own-type.ts'
import { isSupported, supportedVersions } from '../../cni/model/version.ts'
import { stateRoot } from '../../system/files/state.ts'
import { ownTypes } from '../../system/ipam/own-types.ts'
import { pathWithTools, type Run } from '../../system/process/runner.ts'
import { isExecutable } from '../../system/process/tools.ts'
import { type Program, thisProgram } from '../shell/self.ts'

/**
 * A network and how to run it. `cniPath`: CNI_PATH. `isInstalled`: plugins with a name of this program are looked up
 * there as well, as a runtime does, and have the node's own state.
 */
export interface Runtime {
  readonly run: Run
  readonly network: NetworkList
  readonly cniPath: string
  readonly isInstalled?: true
}

/** One attachment of a pod. */
export interface Attachment {
  readonly containerId: string
  readonly netns: string
  readonly ifName: string
  readonly capabilityArgs?: Readonly<Record<string, unknown>>
}

/**
 * Runs ADD of every plugin, in order. Returns the last result as it was printed. Throws the CniError of the first that
 * fails.
 */
export async function addList(runtime: Runtime, attachment: Attachment): Promise<unknown> {
  let prevResult: unknown
  for (const conf of runtime.network.plugins) {
    prevResult = JSON.parse(await call(runtime, { verb: 'ADD', conf, attachment, prevResult }))
  }
  return prevResult
}

/** Runs CHECK of every plugin, in order. Throws the CniError of the first that fails. */
export async function checkList(runtime: Runtime, attachment: Attachment, prevResult: unknown): Promise<void> {
  for (const conf of runtime.network.plugins) await call(runtime, { verb: 'CHECK', conf, attachment, prevResult })
}

/** Runs DEL of every plugin, last one first. Throws the CniError of the first that fails. */
export async function delList(runtime: Runtime, attachment: Attachment, prevResult: unknown): Promise<void> {
  for (const conf of runtime.network.plugins.toReversed()) {
    await call(runtime, { verb: 'DEL', conf, attachment, prevResult })
  }
}

/** Runs STATUS of every plugin, in order. Throws the CniError of the first that is not ready. */
export async function statusList(runtime: Runtime): Promise<void> {
  for (const conf of runtime.network.plugins) await call(runtime, { verb: 'STATUS', conf })
}

/** The plugins of the list that are not this program and not in CNI_PATH. */
export function missingPlugins({ network, cniPath }: Pick<Runtime, 'network' | 'cniPath'>): readonly string[] {
  return network.plugins.filter((conf) => programOf(conf, { cniPath }) === undefined).map((conf) => conf.type)
}

interface Call {
  readonly verb: Verb
  readonly conf: PluginConf
  readonly attachment?: Attachment
  readonly prevResult?: unknown
}

async function call(runtime: Runtime, { verb, conf, attachment, prevResult }: Call): Promise<string> {
  const program = programOf(conf, runtime)
  if (program === undefined) {
    throw new CniError('plugin-missing', `cannot find the plugin "${conf.type}" in ${runtime.cniPath}`)
  }
  const capabilityArgs = attachment?.capabilityArgs ?? {}
  // Started by the path of its file, it may not know the name of a link to it.
  const sent = isThis(conf, runtime) ? asOwn(conf) : conf
  const stdin = JSON.stringify(requestConf(runtime.network, sent, { capabilityArgs, prevResult }))
  const env = {
    PATH: pathWithTools(),
    CNI_COMMAND: verb,
    CNI_CONTAINERID: attachment?.containerId ?? '',
    CNI_NETNS: attachment?.netns ?? '',
    CNI_IFNAME: attachment?.ifName ?? '',
    CNI_PATH: runtime.cniPath,
    ...(runtime.isInstalled === true ? { TRESTLE_STATE_DIR: stateRoot() } : {}),
  }
  const { code, stdout, stderr } = await runtime.run({ ...program, stdin, env })
  if (code === 0) return stdout
  throw errorOf(stdout) ?? new CniError('plugin-failed', `${conf.type} ${verb} printed no error`, { details: stderr })
}

type Where = Pick<Runtime, 'cniPath' | 'isInstalled'>

function isThis({ type }: PluginConf, { isInstalled }: Where): boolean {
  return isInstalled !== true && ownTypes().includes(type)
}

function programOf(conf: PluginConf, where: Where): Program | undefined {
  if (isThis(conf, where)) return thisProgram()
  const files = where.cniPath.split(':').map((directory) => `${directory}/${conf.type}`)
  const file = files.find(isExecutable)
  return file === undefined ? undefined : { file, args: [] }
}

function errorOf(stdout: string): CniError | undefined {
  try {
    const { code, msg, details } = JSON.parse(stdout) as Record<string, unknown>
    if (typeof code !== 'number' || typeof msg !== 'string') return undefined
    const { message, id, alsoIds } = readMessage(msg)
    return new CniError(id, message, { code, alsoIds, details: typeof details === 'string' ? details : undefined })
  } catch {
    return undefined
  }
}

/** A message of trestle has its ids at its end (cni/model/error.ts, messageWithId). */
function readMessage(msg: string): { message: string; id: ErrorId; alsoIds: readonly ErrorId[] } {
  const [, message = msg, list = ''] = /^(.*) \[([a-z\d, -]+)\]$/s.exec(msg) ?? []
  const [id, ...alsoIds] = list.split(', ').filter(isErrorId)
  return id === undefined ? { message: msg, id: 'plugin-refused', alsoIds: [] } : { message, id, alsoIds }
}

// A configuration list (.conflist) or a single configuration (.conf) as a runtime reads it: CNI spec
// 1.1.0, section 1 "Network configuration format" and section 3 "Deriving request configuration".

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
interface Injected {
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

/** Whether a configuration of this type is for trestle: by a name of this program, or by one like "trestle-v2". */
export function isOwnType(type: unknown): type is string {
  return typeof type === 'string' && (ownTypes().includes(type) || /^trestle[._-]/.test(type))
}

/** The plugin's configuration with the name that every version takes for its own, also where it is its own IPAM. */
export function asOwn(plugin: PluginConf): PluginConf {
  const { type, ipam } = plugin
  if (type === ownType) return plugin
  const isOwnIpam = isObject(ipam) && ipam['type'] === type
  return { ...plugin, type: ownType, ...(isOwnIpam ? { ipam: { ...ipam, type: ownType } } : {}) }
}
