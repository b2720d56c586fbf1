// SPDX-License-Identifier: Apache-2.0
// A small runtime: runs the plugins of a list as libcni does (CNI spec 1.1.0, sections 2 and 3). This process runs
// plugins with a name of trestle; other plugins come from CNI_PATH.

import { isErrorId } from '../catalogue/diagnosis.ts'
import type { Verb } from '../cni/call.ts'
import { CniError } from '../cni/errors.ts'
import { parseObject } from '../cni/json.ts'
import { ownTypes } from '../process/executable.ts'
import { isExecutable, type Run, toolPath } from '../process/runner.ts'
import { failureOf, PluginError } from './failure.ts'
import type { NetworkList, PluginConf } from './network-list.ts'
import { asOwn } from './own-type.ts'
import { type Program, thisProgram } from './self.ts'

/**
 * A network and the way to run it. `cniPath`: CNI_PATH. `own`: the source of plugins with a name of trestle: this
 * program, CNI_PATH as for a runtime, or CNI_PATH and else this program. `env`: of the plugins, beside CNI_* and PATH.
 */
export interface Runtime {
  readonly run: Run
  readonly network: NetworkList
  readonly cniPath: string
  readonly own: 'this' | 'installed' | 'either'
  readonly env?: Readonly<Record<string, string>>
}

/** The directories of plugins: the variable of cnitool, with its default. */
export function pluginPath(): string {
  return process.env['CNI_PATH'] || '/opt/cni/bin'
}

export interface Attachment {
  readonly containerId: string
  readonly netns: string
  readonly ifName: string
  readonly args?: readonly (readonly [string, string])[]
  readonly capabilityArgs?: Readonly<Record<string, unknown>>
}

/** Runs ADD of every plugin, in order. Returns the last printed result. Throws the CniError of the first failure. */
export async function addList(runtime: Runtime, attachment: Attachment): Promise<unknown> {
  let prevResult: unknown
  for (const conf of runtime.network.plugins) {
    prevResult = JSON.parse(await call(runtime, { verb: 'ADD', conf, attachment, prevResult }))
  }
  return prevResult
}

/** Runs CHECK of every plugin, in order. Throws the CniError of the first failure. */
export async function checkList(runtime: Runtime, attachment: Attachment, prevResult: unknown): Promise<void> {
  for (const conf of runtime.network.plugins) await call(runtime, { verb: 'CHECK', conf, attachment, prevResult })
}

/** Runs DEL of every plugin, in reverse order. Throws the CniError of the first failure. */
export async function delList(runtime: Runtime, attachment: Attachment, prevResult: unknown): Promise<void> {
  for (const conf of runtime.network.plugins.toReversed()) {
    await call(runtime, { verb: 'DEL', conf, attachment, prevResult })
  }
}

/** Runs STATUS of every plugin, in order. Throws the CniError of the first plugin that is not ready. */
export async function statusList(runtime: Runtime): Promise<void> {
  for (const conf of runtime.network.plugins) await call(runtime, { verb: 'STATUS', conf })
}

/** A container's interface in a list of valid attachments: CNI spec 1.1.0, section 4 "GC". */
export interface ValidAttachment {
  readonly containerID: string
  readonly ifname: string
}

/** Runs GC of every plugin, in order; a failure does not keep the others from theirs. Throws all failures. */
export async function gcList(runtime: Runtime, valid: readonly ValidAttachment[]): Promise<void> {
  const failures: unknown[] = []
  for (const conf of runtime.network.plugins) {
    await call(runtime, { verb: 'GC', conf, valid }).catch((error: unknown) => failures.push(error))
  }
  if (failures.length > 0) throw new AggregateError(failures)
}

/** The plugins of the list that have no program. */
export function missingPlugins({ network, ...where }: Pick<Runtime, 'network' | keyof Where>): readonly string[] {
  return network.plugins.filter((conf) => programOf(conf, where) === undefined).map((conf) => conf.type)
}

interface Call {
  readonly verb: Verb
  readonly conf: PluginConf
  readonly attachment?: Attachment
  readonly prevResult?: unknown
  readonly valid?: readonly ValidAttachment[]
}

async function call(runtime: Runtime, { verb, conf, attachment, prevResult, valid }: Call): Promise<string> {
  const program = programOf(conf, runtime)
  if (program === undefined) {
    const message = `cannot find the plugin "${conf.type}" in ${runtime.cniPath}`
    throw new PluginError(conf.type, failureOf('plugin-missing', message))
  }
  const capabilityArgs = attachment?.capabilityArgs ?? {}
  // The process runs by its file's path, and cannot know the name of a link that the list uses.
  const sent = program.isThis ? asOwn(conf) : conf
  const stdin = JSON.stringify(requestConf(runtime.network, sent, { capabilityArgs, prevResult, valid }))
  const env = {
    ...runtime.env,
    PATH: toolPath(),
    CNI_COMMAND: verb,
    CNI_CONTAINERID: attachment?.containerId ?? '',
    CNI_NETNS: attachment?.netns ?? '',
    CNI_IFNAME: attachment?.ifName ?? '',
    CNI_ARGS: (attachment?.args ?? []).map(([key, value]) => `${key}=${value}`).join(';'),
    CNI_PATH: runtime.cniPath,
    TRESTLE_ASKED_BY: 'hand',
  }
  const { code, stdout, stderr } = await runtime.run({ file: program.file, args: program.args, stdin, env })
  if (code === 0) return stdout
  const silent = () => failureOf('plugin-failed', `${conf.type} ${verb} printed no error`, { details: stderr })
  throw new PluginError(conf.type, errorOf(stdout) ?? silent())
}

type Where = Pick<Runtime, 'cniPath' | 'own'>

/** The program of a plugin. `isThis`: this one. */
function programOf({ type }: PluginConf, { cniPath, own }: Where): (Program & { isThis?: true }) | undefined {
  const mayBeThis = own !== 'installed' && ownTypes().includes(type)
  const files = cniPath.split(':').map((directory) => `${directory}/${type}`)
  const file = mayBeThis && own === 'this' ? undefined : files.find(isExecutable)
  if (file !== undefined) return { file, args: [] }
  return mayBeThis ? { ...thisProgram(), isThis: true } : undefined
}

/** A message of trestle ends with its id (cni/errors.ts, messageWithId). */
function errorOf(stdout: string): CniError | undefined {
  const { code, msg, details } = parseObject(stdout) ?? {}
  if (typeof code !== 'number' || typeof msg !== 'string') return undefined
  const [, message = msg, id = ''] = /^(.*) \[([a-z\d-]+)\]$/s.exec(msg) ?? []
  const about = { details: typeof details === 'string' ? details : undefined }
  return isErrorId(id) ? new CniError(code, id, message, about) : new CniError(code, 'plugin-refused', msg, about)
}

/** A runtime's additions to a plugin's configuration for one call. */
interface Injected {
  readonly capabilityArgs?: Readonly<Record<string, unknown>>
  readonly prevResult?: unknown
  readonly valid?: readonly ValidAttachment[] | undefined
}

/** A plugin's stdin (section 3): its entry, with name and version of the list and the runtime's additions. */
export function requestConf(network: NetworkList, conf: PluginConf, injected: Injected): Record<string, unknown> {
  const wanted = Object.entries(injected.capabilityArgs ?? {}).filter(([name]) => conf.capabilities?.[name] === true)
  return {
    ...conf,
    name: network.name,
    cniVersion: network.cniVersion,
    ...(wanted.length > 0 ? { runtimeConfig: Object.fromEntries(wanted) } : {}),
    ...(injected.prevResult === undefined ? {} : { prevResult: injected.prevResult }),
    // The second name is that of the specification's first text (containernetworking/cni#1101): libcni sends both.
    ...(injected.valid && { 'cni.dev/valid-attachments': injected.valid, 'cni.dev/attachments': injected.valid }),
  }
}
