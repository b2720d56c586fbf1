// SPDX-License-Identifier: Apache-2.0
// `trestle convert`: prints the list with one trestle in place of the upstream plugins on stdout, and remarks on
// stderr.

import type { CniError } from '../../cni/errors.ts'
import { lookUp } from '../../cni/json.ts'
import { type Command, exitCode, type Input } from '../command.ts'
import { failureOf } from '../failure.ts'
import { readFileAs } from '../input-file.ts'
import { keyPathOf } from '../lint/finding.ts'
import { readOwn, unknownOwnKeys } from '../lint/own-plugin.ts'
import { readNetworkList } from '../network-list.ts'
import { jsonText, print } from '../output.ts'
import { isOwnType } from '../own-type.ts'
import {
  type Converted,
  converterOf,
  convertHostDevice,
  convertMacvlan,
  convertMain,
  isRead,
  isWithoutHostEnd,
  note,
  type Remark,
  warning,
} from './plugins.ts'

export const convertCommand: Command = {
  name: 'convert',
  words: '[FILE]',
  maxWords: 1,
  summary: 'convert a list of upstream plugins into a list with trestle',
  description: [
    'Reads a .conflist of bridge, ptp, macvlan or host-device with host-local or static, portmap, firewall,',
    'bandwidth, tuning and sbr (standard input without FILE) and prints a list with one trestle in their place. The',
    "new list spells out defaults that differ from trestle's, merges capabilities, and keeps other plugins after",
    'trestle. Behind a plugin that stays, like flannel or calico, one chained trestle replaces the rest. Remarks go',
    'to standard error. Exit code 1: a remark is a warning, and a part of the original has no effect any more.',
    'docs/migrate.md says how a node changes over.',
  ].join('\n'),
  options: {},
  examples: [
    'trestle convert /etc/cni/net.d/10-bridge.conflist >10-trestle.conflist',
    'trestle convert -o json <10-bridge.conflist',
  ],
  run,
}

function run(input: Input): number {
  const { words, isJson, output } = input
  const { conflist, remarks } = readFileAs(words[0] ?? '-', convert)
  const code = remarks.some(({ level }) => level === 'warning') ? exitCode.findings : exitCode.fine
  print(input, { command: 'convert', document: { conflist, remarks }, text: jsonText(conflist), code })
  if (!isJson) output.err(remarks.map(remarkText).join(''))
  return code
}

function remarkText({ level, about, text }: Remark): string {
  return `${level}: ${about}: ${text}\n`
}

// Converts a list of upstream plugins into a list with one trestle. Pure: the node is not consulted.

type Json = Readonly<Record<string, unknown>>

interface Conversion {
  readonly conflist: Json
  readonly remarks: readonly Remark[]
}

/**
 * Converts the text of a configuration: one trestle replaces bridge or ptp and the plugins after it; behind a plugin
 * that stays, one chained trestle replaces the rest. Throws CniError 6 for invalid JSON, 7 for a list beyond
 * conversion.
 */
export function convert(text: string): Conversion {
  const list = readNetworkList(text)
  const root = JSON.parse(text) as Json
  const all = 'plugins' in root ? (root['plugins'] as readonly Json[]) : [root]
  const { plugins, remarks: ofLoopback } = withoutLoopback(all)
  const { before, parts, after, remarks } = split(plugins)
  const { trestle, remarks: more } = merge(parts, before.length > 0 ? { mode: 'chained' } : {})
  const { plugins: _, ...top } = root
  const isList = 'plugins' in root
  const outer = isList ? top : { cniVersion: list.cniVersion, name: list.name }
  const conflist = { ...outer, plugins: [...before, trestle, ...after] }
  const told = [
    ...(isList
      ? []
      : [note('plugins', 'this is a list now: runtimes read it only from a file that is named .conflist')]),
    ...[...ofLoopback, ...remarks, ...more],
    ...[...nestedKeyRemarks(trestle), ...problems(conflist, before.length)],
  ]
  return { conflist, remarks: told }
}

/** Runtimes bring `lo` up before they call a list (containerd go-cni and CRI-O ocicni have a list for it). */
function withoutLoopback(all: readonly Json[]): {
  readonly plugins: readonly Json[]
  readonly remarks: readonly Remark[]
} {
  const plugins = all.filter((plugin) => typeOf(plugin) !== 'loopback')
  if (plugins.length === all.length || plugins.length === 0) return { plugins: all, remarks: [] }
  const text = 'is left out: containerd and CRI-O bring lo up themselves'
  return { plugins, remarks: [note('loopback', text)] }
}

interface Split {
  /** Plugins that stay in front of trestle, which is then chained. */
  readonly before: readonly Json[]
  readonly parts: readonly Json[]
  readonly after: readonly Json[]
  readonly remarks: readonly Remark[]
}

/** Splits the list into the plugins that trestle replaces, and the plugins that stay before and after it. */
function split(plugins: readonly Json[]): Split {
  const [head] = plugins
  if (head === undefined || plugins.some((plugin) => isOwnType(typeOf(plugin)))) throw notConvertible(head, plugins)
  const isHeadOurs = mainConverterOf(head, plugins) !== undefined
  const first = isHeadOurs ? 0 : plugins.findIndex((plugin) => converterOf(typeOf(plugin)) !== undefined)
  if (first < 0 || (first === 0 && !isHeadOurs)) throw notConvertible(head, plugins)
  const before = plugins.slice(0, first)
  const stays = before.map((plugin) => note(String(typeOf(plugin)), 'stays as it is; trestle is chained after it'))
  const { parts, after, remarks } = partsOf(plugins.slice(first), isHeadOurs)
  return { before, parts, after, remarks: [...stays, ...remarks] }
}

/** The converter for a plugin that makes the interface; undefined if the other plugins of the list prevent it. */
function mainConverterOf(plugin: Json, all: readonly Json[]): ((plugin: Json) => Converted) | undefined {
  const type = typeOf(plugin)
  const alone = type === 'macvlan' ? convertMacvlan : type === 'host-device' ? convertHostDevice : undefined
  if (alone !== undefined) return isWithoutHostEnd(plugin, all) ? alone : undefined
  return type === 'bridge' || type === 'ptp' ? convertMain : undefined
}

function partsOf(plugins: readonly Json[], isHeadOurs: boolean): Omit<Split, 'before'> {
  const parts: Json[] = []
  const after: Json[] = []
  const remarks: Remark[] = []
  for (const [at, plugin] of plugins.entries()) {
    const type = String(typeOf(plugin))
    const isSecond = parts.some((part) => typeOf(part) === type)
    const isOurs = converterOf(type) !== undefined || (at === 0 && isHeadOurs)
    if (!isOurs || isSecond) {
      after.push(plugin)
      remarks.push(
        note(type, isSecond ? `a second ${type} stays as it is, after trestle` : 'stays as it is, after trestle'),
      )
      continue
    }
    if (after.length > 0)
      remarks.push(note(type, `is now done before ${after.map(typeOf).join(', ')}, after which it came`))
    parts.push(plugin)
  }
  return { parts, after, remarks }
}

function merge(plugins: readonly Json[], mode: Json): { trestle: Json; remarks: readonly Remark[] } {
  const converted = plugins.map((plugin): Converted => {
    const convert = mainConverterOf(plugin, plugins) ?? converterOf(typeOf(plugin))
    return convert?.(plugin) ?? { keys: {}, remarks: [] }
  })
  const capabilities = Object.assign({}, ...plugins.map(capabilitiesOf)) as Json
  const trestle = {
    type: 'trestle',
    ...mode,
    ...Object.assign({}, ...converted.map(({ keys }) => keys)),
    ...(Object.keys(capabilities).length === 0 ? {} : { capabilities }),
    ...argsOf(converted),
  }
  const remarks = [...converted.flatMap((each) => each.remarks), ...plugins.flatMap(unreadRemarks)]
  return { trestle, remarks: [...remarks, ...plugins.flatMap(valueRemarks)] }
}

/** Warns of a runtime's keys in the file: their values were in force for every pod without values of the runtime. */
function valueRemarks(plugin: Json): readonly Remark[] {
  const type = String(typeOf(plugin))
  return ['runtimeConfig', 'prevResult'].flatMap((key) => {
    const value = lookUp(plugin, key)
    if (value === undefined || value === null) return []
    const cure = 'write values for every pod as keys of the configuration, like "bandwidth": {…}'
    const text = `${JSON.stringify(value)} is left out: ${cure}`
    return [warning(`${type}.${key}`, text)]
  })
}

/** Merges `args` of all plugins, and `args.cni` within, since several plugins read it. */
function argsOf(converted: readonly Converted[]): Json {
  const all = converted.map(({ keys }) => keys['args'] as Json | undefined).filter((args) => args !== undefined)
  if (all.length === 0) return {}
  const cni = Object.assign({}, ...all.map((args) => args['cni'])) as Json
  return { args: { ...Object.assign({}, ...all), cni } }
}

/** The capabilities with the value true, of those that the plugin reads; libcni passes no others. */
function capabilitiesOf(plugin: Json): Json {
  return Object.fromEntries(declaredIn(plugin).flatMap((name) => (isRead(plugin, name) ? [[name, true]] : [])))
}

function declaredIn(plugin: Json): readonly string[] {
  const value = lookUp(plugin, 'capabilities')
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : []
  return entries.flatMap(([name, isOn]) => (isOn === true ? [name] : []))
}

/** In the merged entry it would be in force for the others' part. */
function unreadRemarks(plugin: Json): readonly Remark[] {
  const type = String(typeOf(plugin))
  return declaredIn(plugin).flatMap((name) => {
    if (isRead(plugin, name)) return []
    return [note(`${type}.capabilities.${name}`, `is left out: the ${type} plugin does not read this capability`)]
  })
}

/** A warning when trestle's own reader refuses the result. `at`: index of trestle in the list. */
function problems(conflist: Json, at: number): readonly Remark[] {
  const { name, cniVersion, plugins } = readNetworkList(JSON.stringify(conflist))
  const conf = plugins[at]
  if (conf === undefined) return []
  const { found } = readOwn({ conf, steps: [], index: at }, { name, version: cniVersion })
  return found.slice(0, 1).map(({ message, cure }) => {
    return warning('trestle', `refuses this: ${message}${cure === undefined ? '' : ` (${cure})`}`)
  })
}

function typeOf(plugin: Json): unknown {
  return lookUp(plugin, 'type')
}

function notConvertible(head: Json | undefined, plugins: readonly Json[]): CniError {
  const type = head === undefined ? 'nothing' : String(typeOf(head))
  if (plugins.some((plugin) => isOwnType(typeOf(plugin)))) {
    const details = 'put the keys of a second entry into the entry of trestle'
    return failureOf('list-not-convertible', 'the list has trestle already', { details })
  }
  if (converterOf(type) !== undefined) {
    const details = 'put the plugin that makes the interface first'
    const message = `"${type}" is first, but needs the interface of an earlier plugin`
    return failureOf('list-not-convertible', message, { details })
  }
  return failureOf('list-not-convertible', `nothing in this list of "${type}" can be converted`, {
    details:
      'trestle replaces bridge, ptp, macvlan and host-device (the last two without portmap, bandwidth or firewall ' +
      'behind them, macvlan without linkInContainer), and behind any plugin portmap, firewall, bandwidth, tuning and ' +
      'sbr',
  })
}

/** A warning for each nested key of the new entry that neither trestle nor the upstream plugin reads. */
function nestedKeyRemarks(trestle: Readonly<Record<string, unknown>>): readonly Remark[] {
  return unknownOwnKeys(trestle, []).flatMap(({ steps = [], message, severity }) => {
    if (steps.length < 2 || severity === 'note') return []
    const [, meant] = /did you mean (".*?")/.exec(message) ?? []
    const hint = meant === undefined ? '' : `; ${meant} may be meant`
    return [warning(keyPathOf(steps), `has no effect: neither the upstream plugin nor trestle knows this key${hint}`)]
  })
}
