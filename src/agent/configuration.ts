// SPDX-License-Identifier: Apache-2.0
// The configuration that the agent writes for the runtime: ranges and MTU from the Node and the way to its peers, all other
// keys from the operator's template. A node that joins or leaves changes nothing in it.

import { lstatSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { ownType, readCall } from '../cni/call.ts'
import { isPluginType } from '../cni/config-head.ts'
import { type CniError, oneLine } from '../cni/errors.ts'
import { withKnownKeys } from '../cni/fields.ts'
import { asObject, isObject, type JsonObject, parseObject } from '../cni/json.ts'
import { readConfig } from '../config/read-config.ts'
import { schemas } from '../config/schema.ts'
import { limitBytes, namesIn, readableText, sweepTemporaryFiles, writeSynced } from '../state/files.ts'
import type { Problem } from './cluster.ts'
import { isOnHost } from './program.ts'
import type { AgentMode, Settings } from './settings.ts'

/** `own`: keys of trestle; `others`: plugins after it; `list`: keys beside the plugins. */
export interface Template {
  readonly list: JsonObject
  readonly own: JsonObject
  readonly others: readonly unknown[]
}

export const emptyTemplate: Template = { list: {}, own: {}, others: [] }

/** `good`: the last valid template; `wrong`: what is wrong with the present one, in one line. */
export interface LookedTemplate {
  readonly seen: string
  readonly good: Template | undefined
  readonly wrong?: string
}

type TemplateSettings = Pick<Settings, 'template' | 'network'>

/** What new pods get. `mtu`: absent where the uplink's is right. */
export interface PodsOf {
  readonly mode: AgentMode
  readonly ranges: readonly string[]
  readonly mtu?: number | undefined
}

/** Reads the template again where it has changed. */
export function lookAtTemplate(settings: TemplateSettings, pods: PodsOf, before?: LookedTemplate): LookedTemplate {
  const { file, isAsked } = settings.template
  let text: string
  try {
    if (statSync(file).size > limitBytes) throw new Error('it is longer than 1 MiB')
    text = readFileSync(file, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if ((code === 'ENOENT' || code === 'ENOTDIR') && !isAsked) return { seen: '', good: emptyTemplate }
    const wrong = `${file}: ${code === 'ENOENT' ? 'there is no such file' : message}`
    return { seen: wrong, good: before?.good, wrong }
  }
  const seen = JSON.stringify([text, pods])
  if (before?.seen === seen) return before
  const template = readTemplate(text)
  const wrong = typeof template === 'string' ? template : wrongWith(template, settings, pods, text)
  if (typeof template === 'string' || wrong !== undefined)
    return { seen, good: before?.good, wrong: `${file}: ${wrong}` }
  return { seen, good: template }
}

/** The template, or in words why it is none. */
function readTemplate(text: string): Template | string {
  let root: unknown
  try {
    root = JSON.parse(text)
  } catch (error) {
    return (error as Error).message
  }
  if (!isObject(root)) return 'it is no JSON object'
  const { plugins = [{}], name, ...list } = root
  if (!Array.isArray(plugins) || plugins.length === 0 || !plugins.every(isObject))
    return 'plugins is no list of objects'
  if ('type' in root) return `${lineOf(text, 'type')}a plugin goes into the list "plugins"`
  if (name !== undefined) return `${lineOf(text, 'name')}leave "name" out: the agent names the network`
  const [first, ...others] = plugins
  const { type = ownType, ...own } = asObject(withKnownKeys(first, schemas.own.keys))
  if (type !== ownType)
    return `${lineOf(text, 'type')}the first plugin is ${JSON.stringify(type)}: it has to be trestle`
  return { list, own, others }
}

/** Keys that the Node or an option decides. */
const decidedKeys: Readonly<Record<string, string>> = {
  podcidr: "ranges come from the Node's podCIDRs",
  podCIDR: "ranges come from the Node's podCIDRs",
  ipam: "ranges come from the Node's podCIDRs",
  bridge: 'the agent names the bridge',
  mode: 'use the option --mode of the agent',
  runtimeConfig: 'the runtime gives it',
}

/** Documentation ranges (RFC 5737, RFC 3849), while the Node has none. */
const exampleRanges = ['192.0.2.0/24', '2001:db8::/64']

/** By what an ADD would say of it. */
function wrongWith(template: Template, settings: TemplateSettings, pods: PodsOf, text: string): string | undefined {
  for (const key of Object.keys(template.own)) {
    if (decidedKeys[key] !== undefined) return `${lineOf(text, key)}leave "${key}" out: ${decidedKeys[key]}`
    if (schemas.own.keys?.keys?.has(key.toLowerCase()) !== true && key !== 'capabilities')
      return `${lineOf(text, key)}"${key}" is no key of trestle`
  }
  const unnamed = template.others.find((plugin) => !isPluginType(asObject(plugin)['type']))
  if (unnamed !== undefined) return `a plugin has the type ${JSON.stringify(asObject(unnamed)['type'])}`
  const ranges = pods.ranges.length === 0 ? exampleRanges : pods.ranges
  const { plugins, ...list } = conflistOf(template, settings, { ...pods, ranges })
  const env = { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'x', CNI_NETNS: '/x', CNI_IFNAME: 'eth0' }
  try {
    readConfig(JSON.stringify({ ...list, ...asObject(plugins[0]) }), readCall(env))
    return undefined
  } catch (error) {
    const { message, path = [], details } = error as CniError
    return oneLine(
      `${lineOf(text, String(path.at(-1) ?? ''))}${message}${details === undefined ? '' : ` (${details})`}`,
    )
  }
}

/** `line 7: `, where the text has the key there first. */
function lineOf(text: string, key: string): string {
  const at = text.split('\n').findIndex((line) => line.includes(`"${key}"`))
  return at < 0 || key === '' ? '' : `line ${at + 1}: `
}

/** What the template does not say has the agent's own defaults. */
export function conflistOf(template: Template, { network }: Pick<Settings, 'network'>, { mode, ranges, mtu }: PodsOf) {
  const { firewall, capabilities, ...own } = template.own
  const plugin = {
    type: ownType,
    ...(mode === 'bridge' ? {} : { mode }),
    podcidr: ranges.length === 1 ? ranges[0] : ranges,
    ...(mtu === undefined ? {} : { mtu }),
    ...own,
    firewall: { hostAccept: 'auto', ...asObject(firewall) },
    capabilities: { portMappings: true, bandwidth: true, ...asObject(capabilities) },
  }
  return { cniVersion: '1.1.0', ...template.list, name: network, plugins: [plugin, ...template.others] }
}

function confFile({ confDir, confName }: Settings): string {
  return `${confDir}/${confName}`
}

/** Writes the configuration as a whole, and onto the disk before its name. False where it is there already. */
export function writeConfiguration(settings: Settings, template: Template, pods: PodsOf): boolean {
  return writeConflist(settings, conflistOf(template, settings, pods))
}

function writeConflist(settings: Settings, conflist: object): boolean {
  const file = confFile(settings)
  const text = `${JSON.stringify(conflist, undefined, 2)}\n`
  if (readableText(file) === text) return false
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  sweepTemporaryFiles(dirname(file))
  writeSynced(file, text)
  return true
}

/** Takes out ranges that are not `own`: ADD and STATUS are refused then, DEL is not. Without a file containerd removes no pod. */
export function withdrawRanges(settings: Settings, own: readonly string[]): boolean {
  const list = parseObject(readableText(confFile(settings)) ?? '')
  const [first, ...others] = Array.isArray(list?.['plugins']) ? list['plugins'] : []
  const plugin = asObject(first)
  if (list === undefined || [plugin['podcidr']].flat().every((range) => own.includes(String(range)))) return false
  return writeConflist(settings, { ...list, plugins: [{ ...plugin, podcidr: [] }, ...others] })
}

/** A runtime uses the first file by name (libcni, ConfFiles). */
export function otherConfigurations({ node, confDir, confName }: Settings): readonly Problem[] {
  const names = namesIn(confDir).filter((name) => /\.(conf|conflist|json)$/.test(name) && name < confName)
  const [first] = [...names].sort()
  if (first === undefined) return []
  const found = `${confDir} has ${names.sort().join(', ')} before ${confName}`
  const text = `${found}: the runtime uses ${first}; remove what is not wanted`
  return [{ id: 'OtherConfiguration', node, text }]
}

/** Plugin directories of packages, which a runtime may search beside the agent's: Debian, Fedora and Arch. */
const packaged = ['/opt/cni/bin', '/usr/lib/cni', '/usr/libexec/cni']

/** Programs that pods need on the host, not in the agent's container. */
export function missingPrograms({ node, binDir, hostRoot }: Settings, { others }: Template): readonly Problem[] {
  const problem = (lacks: string, cure: string): Problem => {
    return { id: 'NoProgram', node, text: `${lacks}: pods get no network; ${cure}` }
  }
  const tools = ['ip', 'nft', 'tc'].filter((tool) => !isOnHost(tool, hostRoot))
  const directories = [binDir, ...packaged.map((directory) => `${hostRoot}${directory}`)]
  // A link's target is a path of the host: it is not followed.
  const isThere = (type: string) =>
    type === ownType ||
    directories.some((directory) => lstatSync(`${directory}/${type}`, { throwIfNoEntry: false }) !== undefined)
  const plugins = others.map((plugin) => String(asObject(plugin)['type'])).filter((type) => !isThere(type))
  return [
    ...(tools.length > 0
      ? [problem(`the host has no ${tools.join(', ')}`, 'install nftables and iproute2 there')]
      : []),
    ...(plugins.length > 0
      ? [problem(`${binDir} has no ${plugins.join(', ')}`, 'install the plugin there, or take it out of the template')]
      : []),
  ]
}
