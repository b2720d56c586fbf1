// SPDX-License-Identifier: Apache-2.0
// `trestle convert`: a list of reference plugins as a list with one trestle in their place, on stdout, and on stderr what
// has no place in it.

import { asObject, type JsonObject, lookUp } from '../cni/json.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { failureOf } from './failure.ts'
import { readFileAs } from './input-file.ts'
import { type NetworkHead, readOwn } from './lint/own-plugin.ts'
import { isRemark } from './lint/unknown-keys.ts'
import { readNetworkList } from './network-list.ts'
import { jsonText, print } from './output.ts'
import { isOwnType } from './own-type.ts'

export const convertCommand: Command = {
  name: 'convert',
  words: '[FILE]',
  maxWords: 1,
  summary: 'convert a list of reference plugins into a list with trestle',
  description: [
    'Prints a list with one trestle in the place of bridge, ptp, macvlan or host-device with host-local or static, and',
    'of portmap, firewall, bandwidth, tuning and sbr; other plugins stay. Remarks go to standard error. Exit code 1: a',
    'part of the original has no effect any more. docs/migrate.md says how a node changes over.',
  ].join('\n'),
  options: {},
  examples: ['trestle convert /etc/cni/net.d/10-bridge.conflist >10-trestle.conflist', 'trestle convert <net.conflist'],
  run,
}

/** `warning`: a part of the original has no equivalent. `note`: nothing is lost. `about`: `portmap.markMasqBit`. */
interface Remark {
  readonly level: 'warning' | 'note'
  readonly about: string
  readonly text: string
}

function run(input: Input): number {
  const { words, isJson, output } = input
  const { conflist, remarks } = readFileAs(words[0] ?? '-', convert)
  const code = remarks.some(({ level }) => level === 'warning') ? exitCode.findings : exitCode.fine
  print(input, { command: 'convert', document: { conflist, remarks }, text: jsonText(conflist), code })
  if (!isJson) for (const { level, about, text } of remarks) output.err(`${level}: ${about}: ${text}\n`)
  return code
}

/**
 * What becomes of one plugin's keys. `keys`: kept, with the plugin's default, or null where only a given value is
 * written. `below`: the key of trestle that holds them. `renamed`: to their names in trestle. `dropped`: with the reason;
 * a warning, unless it begins with "note: ".
 */
interface Rule {
  readonly mode?: string
  readonly keys: JsonObject
  readonly below?: string
  readonly renamed?: Readonly<Record<string, string>>
  readonly dropped?: Readonly<Record<string, string>>
  readonly capabilities: readonly string[]
}

const nft = 'note: trestle writes nftables rules in a table of its own'
const ofMain = { ipam: null, dns: null, args: null }

const rules: Readonly<Record<string, Rule>> = {
  bridge: {
    mode: 'bridge',
    keys: {
      ...{ bridge: 'cni0', isGateway: false, isDefaultGateway: false, forceAddress: false, ipMasq: false },
      ...{ hairpinMode: false, promiscMode: false, vlan: null, vlanTrunk: null, preserveDefaultVlan: null },
      ...{ macspoofchk: null, portIsolation: null, enabledad: null, disableContainerInterface: null, mtu: 1500 },
      ...ofMain,
    },
    dropped: { ipMasqBackend: nft },
    capabilities: ['mac'],
  },
  ptp: {
    mode: 'ptp',
    keys: { ipMasq: false, mtu: 1500, ...ofMain },
    dropped: { ipMasqBackend: nft },
    capabilities: [],
  },
  macvlan: {
    mode: 'macvlan',
    keys: { master: null, mode: null, mtu: null, ...ofMain },
    renamed: { mode: 'macvlanMode' },
    dropped: {
      mac: 'every pod would get this MAC; for a MAC of its own declare the capability "mac"',
      bcqueuelen: "trestle has no such key, and the broadcast queue holds the kernel's 1000 packets",
      linkInContainer: 'note: the link is one of the node',
    },
    capabilities: ['mac'],
  },
  'host-device': {
    mode: 'host-device',
    keys: { device: null, hwaddr: null, kernelpath: null, pciBusID: null, ...ofMain },
    capabilities: ['deviceID'],
  },
  portmap: {
    below: 'portmap',
    keys: { snat: true, masqAll: false },
    dropped: {
      backend: nft,
      markMasqBit: 'note: no packet is marked',
      externalSetMarkChain: 'no packet goes through that chain: trestle masquerades host ports itself',
      conditionsV4: 'more clients reach the host ports: limit them in a firewall of the node',
      conditionsV6: 'more clients reach the host ports: limit them in a firewall of the node',
    },
    capabilities: ['portMappings'],
  },
  firewall: {
    below: 'firewall',
    keys: { ingressPolicy: 'open' },
    dropped: {
      backend: nft,
      iptablesAdminChainName: 'packets of pods no longer pass its rules: put these rules into FORWARD',
      firewalldZone: 'docs/host.md has the command that puts pods into a zone',
    },
    capabilities: [],
  },
  bandwidth: {
    below: 'bandwidth',
    keys: { ingressRate: null, ingressBurst: null, egressRate: null, egressBurst: null },
    dropped: {
      shapedSubnets: 'trestle has no such key, and limits the traffic with all addresses',
      unshapedSubnets: 'trestle has no such key, and limits the traffic with all addresses',
    },
    capabilities: ['bandwidth'],
  },
  tuning: {
    below: 'tuning',
    keys: { sysctl: null, mac: null, promisc: null, mtu: null, txQLen: null, allmulti: null },
    dropped: { dataDir: 'note: the interface goes with the pod, so trestle keeps no backup' },
    capabilities: ['mac'],
  },
  sbr: { below: 'sbr', keys: { table: null, gateways: null, addSourceHints: null }, capabilities: [] },
}

/** IPAM plugins that trestle replaces, and the capabilities that they read. */
const ipamCapabilities: Readonly<Record<string, readonly string[]>> = {
  'host-local': ['ipRanges', 'ips'],
  static: ['ips'],
}

/** Plugins that need the host's end of an interface, which a macvlan and a moved device do not have. */
const onHost = ['portmap', 'bandwidth', 'firewall']

/** Throws CniError 6 for invalid JSON, 7 for a list that cannot be converted. */
export function convert(text: string): { readonly conflist: JsonObject; readonly remarks: readonly Remark[] } {
  const { cniVersion, name } = readNetworkList(text)
  const root = JSON.parse(text) as JsonObject
  const remarks: Remark[] = []
  const isList = 'plugins' in root
  const note = (about: string, words: string) => remarks.push({ level: 'note', about, text: words })
  if (!isList) note('plugins', 'this is a list now: runtimes read it only from a file that is named .conflist')
  const all = isList ? (root['plugins'] as readonly JsonObject[]) : [root]
  const others = all.filter((plugin) => typeOf(plugin) !== 'loopback')
  if (others.length < all.length) note('loopback', 'is left out: containerd and CRI-O bring lo up themselves')
  const first = firstOurs(others)
  const [before, rest] = [others.slice(0, first), others.slice(first)]
  for (const plugin of before) note(typeOf(plugin), 'stays as it is; trestle is chained after it')
  const after: JsonObject[] = []
  const parts: JsonObject[] = []
  for (const plugin of rest) {
    const type = typeOf(plugin)
    const isMain = rules[type]?.mode !== undefined
    const isSecond = parts.some((part) => typeOf(part) === type)
    const isOurs = rules[type] !== undefined && !isSecond && (!isMain || (parts.length === 0 && first === 0))
    if (!isOurs) note(type, `${isSecond ? `a second ${type} stays` : 'stays'} as it is, after trestle`)
    else if (after.length > 0) note(type, `is now done before ${after.map(typeOf).join(', ')}, after which it came`)
    if (isOurs) parts.push(plugin)
    else after.push(plugin)
  }
  const trestle = merged(parts, before.length > 0, remarks)
  const top = isList ? root : { cniVersion, name }
  const conflist = { ...top, plugins: [...before, trestle, ...after] }
  remarks.push(...refusals(trestle, before.length, { name, version: cniVersion }))
  return { conflist, remarks }
}

function typeOf(plugin: JsonObject): string {
  return String(lookUp(plugin, 'type'))
}

/** The place of the first plugin that trestle replaces. */
function firstOurs(plugins: readonly JsonObject[]): number {
  const [head = {}] = plugins
  if (plugins.some((plugin) => isOwnType(typeOf(plugin)))) {
    const details = 'put the keys of a second entry into the entry of trestle'
    throw failureOf('list-not-convertible', 'the list has trestle already', { details })
  }
  const needsHostEnd = plugins.some((plugin) => onHost.includes(typeOf(plugin)))
  const isWithoutEnd = ['macvlan', 'host-device'].includes(typeOf(head))
  const isHeadOurs = rules[typeOf(head)]?.mode !== undefined && !(isWithoutEnd && needsHostEnd)
  if (isHeadOurs && lookUp(head, 'linkInContainer') !== true) return 0
  const chained = plugins.findIndex((plugin) => rules[typeOf(plugin)]?.below !== undefined)
  if (chained > 0 && lookUp(head, 'linkInContainer') !== true) return chained
  throw failureOf('list-not-convertible', `nothing in this list of "${typeOf(head)}" can be converted`, {
    details:
      'trestle replaces bridge, ptp, macvlan and host-device (the last two without portmap, bandwidth or firewall ' +
      'behind them, macvlan without linkInContainer), and behind any plugin portmap, firewall, bandwidth, tuning and sbr',
  })
}

/** One trestle with the keys of all parts. */
function merged(parts: readonly JsonObject[], isChained: boolean, remarks: Remark[]): JsonObject {
  const trestle: Record<string, unknown> = { type: 'trestle', ...(isChained ? { mode: 'chained' } : {}) }
  const capabilities: Record<string, boolean> = {}
  const cni: Record<string, unknown> = {}
  for (const plugin of parts) {
    const type = typeOf(plugin)
    const rule = rules[type]
    if (rule === undefined) continue
    const kept = keptKeys(plugin, rule)
    if (rule.mode !== undefined) Object.assign(trestle, { mode: rule.mode }, kept)
    // sbr acts without keys, and args.cni needs the key tuning.
    else if (rule.below !== undefined && (Object.keys(kept).length > 0 || ['sbr', 'tuning'].includes(type))) {
      trestle[rule.below] = kept
    }
    const args = asObject(lookUp(plugin, 'args'))
    if (Object.keys(args).length > 0) {
      Object.assign(cni, args['cni'])
      trestle['args'] = { ...args, cni }
    }
    for (const [name, isOn] of Object.entries(asObject(lookUp(plugin, 'capabilities')))) {
      if (isOn !== true) continue
      if (isRead(plugin, rule, name)) capabilities[name] = true
      else
        remarks.push(
          leftOut('note', `${type}.capabilities.${name}`, `the ${type} plugin does not read this capability`),
        )
    }
    remarks.push(...droppedKeys(plugin, type, rule))
  }
  return Object.keys(capabilities).length === 0 ? trestle : { ...trestle, capabilities }
}

function keptKeys(plugin: JsonObject, { keys, renamed = {} }: Rule): JsonObject {
  const kept: Record<string, unknown> = {}
  for (const [key, usual] of Object.entries(keys)) {
    const given = lookUp(plugin, key) ?? null
    // An MTU of 0 is the default, and an empty policy is open.
    const value = given === 0 || given === '' ? usual : (given ?? usual)
    if (value !== null) kept[renamed[key] ?? key] = value
  }
  // In the reference plugin isDefaultGateway implies isGateway.
  if (kept['isDefaultGateway'] === true) kept['isGateway'] = true
  const isWithoutMasqAll = lookUp(plugin, 'snat') === false || lookUp(plugin, 'backend') === 'nftables'
  if (kept['masqAll'] === true && isWithoutMasqAll) kept['masqAll'] = false
  return kept
}

/** Whether the plugin, or its IPAM plugin, reads the capability; of an IPAM plugin that stays nothing is known. */
function isRead(plugin: JsonObject, { capabilities }: Rule, name: string): boolean {
  const ipam = lookUp(asObject(lookUp(plugin, 'ipam')), 'type')
  if (capabilities.includes(name)) return true
  if (typeof ipam !== 'string' || ipam === '') return false
  return ipamCapabilities[ipam]?.includes(name) ?? !['portMappings', 'bandwidth'].includes(name)
}

function leftOut(level: Remark['level'], about: string, why: string): Remark {
  return { level, about, text: `is left out: ${why}` }
}

const silent = ['type', 'name', 'cniversion', 'capabilities', 'args']

function droppedKeys(plugin: JsonObject, type: string, { keys, dropped = {} }: Rule): readonly Remark[] {
  const found: Remark[] = []
  const nameIn = (all: object, key: string) => Object.keys(all).find((each) => each.toLowerCase() === key.toLowerCase())
  for (const [key, value] of Object.entries(plugin)) {
    const isEmpty = value === null || value === '' || value === 0 || value === false
    if (isRemark(key) || nameIn(keys, key) !== undefined || silent.includes(key.toLowerCase())) continue
    const reason = dropped[nameIn(dropped, key) ?? '']
    const about = `${type}.${key}`
    if (reason === undefined) found.push(leftOut('warning', about, 'trestle has no such key'))
    else if (reason.startsWith('note: ')) found.push(leftOut('note', about, reason.replace('note: ', '')))
    else if (!isEmpty) found.push(leftOut('warning', about, reason))
  }
  return found
}

/** A warning where trestle's own reader refuses the result. */
function refusals(trestle: JsonObject, at: number, head: NetworkHead): readonly Remark[] {
  const [refused] = readOwn({ conf: trestle, steps: [], index: at }, head).found
  if (refused === undefined) return []
  const cure = refused.cure === undefined ? '' : ` (${refused.cure})`
  return [{ level: 'warning', about: 'trestle', text: `refuses this: ${refused.message}${cure}` }]
}
