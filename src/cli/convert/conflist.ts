// SPDX-License-Identifier: Apache-2.0
// A list of reference plugins to the list with one trestle in their place. Pure: nothing is looked at.

import { readConfig } from '../../cni/config/config.ts'
import { parseConfig } from '../../cni/json/config-json.ts'
import { lookUp } from '../../cni/json/json-keys.ts'
import { CniError, toCniError } from '../../cni/model/error.ts'
import { readInvocation } from '../../cni/model/invocation.ts'
import { readNetworkList, requestConf } from '../node/network-list.ts'
import { isOwnType } from '../node/own-type.ts'
import { converterOf } from './chained-plugins.ts'
import { type Converted, convertMain, isMainType } from './main-plugin.ts'
import { note, type Remark, warning } from './remarks.ts'

type Json = Readonly<Record<string, unknown>>

/** The converted list and what is to be said about it. */
export interface Conversion {
  readonly conflist: Json
  readonly remarks: readonly Remark[]
}

/**
 * Converts a configuration list, or a single configuration, from its text. Throws CniError 6 when it is
 * not JSON, 7 when it is no list or its first plugin is neither bridge nor ptp.
 */
export function convert(text: string): Conversion {
  const list = readNetworkList(text)
  const root = parseConfig(text)
  const plugins = 'plugins' in root ? (root['plugins'] as readonly Json[]) : [root]
  const { head, parts, rest, remarks } = split(plugins)
  const { trestle, remarks: more } = merge([head, ...parts])
  const { plugins: _, ...top } = root
  const outer = 'plugins' in root ? top : { cniVersion: list.cniVersion, name: list.name }
  const conflist = { ...outer, plugins: [trestle, ...rest] }
  return { conflist, remarks: [...remarks, ...more, ...problems(conflist)] }
}

interface Split {
  readonly head: Json
  readonly parts: readonly Json[]
  readonly rest: readonly Json[]
  readonly remarks: readonly Remark[]
}

/** What becomes part of ours, and what stays after it. */
function split([head, ...others]: readonly Json[]): Split {
  if (head === undefined || !isMainType(typeOf(head))) throw notConvertible(head)
  const parts: Json[] = []
  const rest: Json[] = []
  const remarks: Remark[] = []
  for (const plugin of others) {
    const type = String(typeOf(plugin))
    const isSecond = parts.some((part) => typeOf(part) === type)
    if (converterOf(type) === undefined || isSecond) {
      rest.push(plugin)
      remarks.push(
        note(type, isSecond ? `a second ${type} stays as it is, after trestle` : 'stays as it is, after trestle'),
      )
      continue
    }
    if (rest.length > 0) remarks.push(note(type, `is done before ${rest.map(typeOf).join(', ')} now, which came first`))
    parts.push(plugin)
  }
  return { head, parts, rest, remarks }
}

function merge(plugins: readonly Json[]): { trestle: Json; remarks: readonly Remark[] } {
  const converted = plugins.map((plugin): Converted => {
    const type = typeOf(plugin)
    return isMainType(type) ? convertMain(plugin) : (converterOf(type)?.(plugin) ?? { keys: {}, remarks: [] })
  })
  const capabilities = Object.assign({}, ...plugins.map(capabilitiesOf)) as Json
  const trestle = {
    type: 'trestle',
    ...Object.assign({}, ...converted.map(({ keys }) => keys)),
    ...(Object.keys(capabilities).length === 0 ? {} : { capabilities }),
    ...argsOf(converted),
  }
  return { trestle, remarks: converted.flatMap(({ remarks }) => remarks) }
}

/** `args` of several plugins are one here; both read `args.cni`. */
function argsOf(converted: readonly Converted[]): Json {
  const all = converted.map(({ keys }) => keys['args'] as Json | undefined).filter((args) => args !== undefined)
  if (all.length === 0) return {}
  const cni = Object.assign({}, ...all.map((args) => args['cni'])) as Json
  return { args: { ...Object.assign({}, ...all), cni } }
}

/** Only what is switched on: libcni passes nothing else. */
function capabilitiesOf(plugin: Json): Json {
  const value = lookUp(plugin, 'capabilities')
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : []
  return Object.fromEntries(entries.filter(([, isOn]) => isOn === true))
}

/** What trestle itself says of the result: a key whose value it refuses. */
function problems(conflist: Json): readonly Remark[] {
  try {
    const list = readNetworkList(JSON.stringify(conflist))
    const [first] = list.plugins
    const env = { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'x', CNI_NETNS: '/run/netns/x', CNI_IFNAME: 'eth0' }
    const given = { ipRanges: [[{ subnet: '192.0.2.0/24' }]], ips: ['192.0.2.2/24'] }
    const capabilityArgs = namesAddresses(first?.['ipam']) ? {} : given
    if (first !== undefined)
      readConfig(JSON.stringify(requestConf(list, first, { capabilityArgs })), readInvocation(env))
    return []
  } catch (thrown) {
    const { message, details } = toCniError(thrown)
    return [warning('trestle', `refuses this: ${message}${details === undefined ? '' : ` (${details})`}`)]
  }
}

/** Where the ranges come from the runtime alone, the configuration is complete without. */
function namesAddresses(ipam: unknown): boolean {
  if (typeof ipam !== 'object' || ipam === null) return true
  return ['subnet', 'ranges', 'addresses'].some((key) => lookUp(ipam as Json, key) !== undefined)
}

function typeOf(plugin: Json): unknown {
  return lookUp(plugin, 'type')
}

function notConvertible(head: Json | undefined): CniError {
  const type = head === undefined ? 'nothing' : String(typeOf(head))
  return new CniError(
    'list-not-convertible',
    `only a list that starts with bridge or ptp can be converted, not "${type}"`,
    {
      details: isOwnType(type) ? 'it is trestle already' : 'trestle can follow such a plugin as a chained one',
    },
  )
}
