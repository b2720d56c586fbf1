// SPDX-License-Identifier: Apache-2.0
// The upstream bridge and ptp plugins (docs/design.md, "Upstream bridge and ptp") with their IPAM, as keys of trestle.

import { lookUp } from '../../cni/json/json-keys.ts'
import { isRemark } from '../lint/unknown-keys.ts'
import { note, type Remark, warning } from './conflist.ts'

/** Keys for trestle's entry, with remarks on keys that are left out. */
export interface Converted {
  readonly keys: Readonly<Record<string, unknown>>
  readonly remarks: readonly Remark[]
}

type Json = Readonly<Record<string, unknown>>

/** Keys with the same meaning in trestle, and upstream's default. `undefined`: written only if given. */
const bridgeDefaults: Json = {
  bridge: 'cni0',
  isGateway: false,
  isDefaultGateway: false,
  forceAddress: false,
  ipMasq: false,
  hairpinMode: false,
  promiscMode: false,
  vlan: undefined,
  vlanTrunk: undefined,
  preserveDefaultVlan: undefined,
  macspoofchk: undefined,
  portIsolation: undefined,
  enabledad: undefined,
  disableContainerInterface: undefined,
}

const ptpDefaults: Json = { ipMasq: false }

/** Keys of every plugin, and keys that conflist.ts converts. */
const common = [
  'type',
  'name',
  'cniVersion',
  'capabilities',
  'runtimeConfig',
  'prevResult',
  'args',
  'dns',
  'ipam',
  'mtu',
]

/** IPAM plugins that trestle replaces in its own process. */
const inProcess: readonly unknown[] = ['host-local', 'static']

/** The keys of a bridge or ptp for the interface, with every upstream default that differs from trestle's. */
export function convertMain(plugin: Json): Converted {
  const type = lookUp(plugin, 'type') === 'ptp' ? 'ptp' : 'bridge'
  const defaults = type === 'ptp' ? ptpDefaults : bridgeDefaults
  const defaultKeys = Object.entries(defaults).flatMap(([key, usual]) => {
    const value = lookUp(plugin, key) ?? usual
    return value === undefined ? [] : [[key, value] as const]
  })
  const isDefaultGateway = lookUp(plugin, 'isDefaultGateway') === true
  const mtu = (lookUp(plugin, 'mtu') ?? 0) === 0 ? 1500 : lookUp(plugin, 'mtu')
  return {
    keys: {
      mode: type,
      ...Object.fromEntries(defaultKeys),
      // In the upstream plugin isDefaultGateway implies isGateway.
      ...(isDefaultGateway ? { isGateway: true } : {}),
      mtu,
      ...keptKeys(plugin),
    },
    remarks: [
      ...mtuRemarks(plugin, type),
      ...(type === 'bridge' ? vlanRemarks(plugin) : []),
      ...ipamRemarks(lookUp(plugin, 'ipam')),
      ...backendRemarks(plugin, type),
      ...unknownRemarks(plugin, { type, known: [...common, ...Object.keys(defaults), 'ipMasqBackend'] }),
    ],
  }
}

/** Keys that keep name and value. */
function keptKeys(plugin: Json): Json {
  const kept = ['ipam', 'dns', 'args'].map((key) => [key, lookUp(plugin, key)] as const)
  return Object.fromEntries(kept.filter(([, value]) => value !== undefined && value !== null))
}

/** Warnings for unknown keys, which are left out. A key for a person's comment needs none. */
export function unknownRemarks(plugin: Json, about: { type: string; known: readonly string[] }): readonly Remark[] {
  const known = about.known.map((key) => key.toLowerCase())
  const unknown = Object.keys(plugin).filter((key) => !known.includes(key.toLowerCase()) && !isRemark(key))
  return unknown.map((key) => {
    const why = `neither the ${about.type} plugin nor trestle knows this key`
    return warning(`${about.type}.${key}`, `${JSON.stringify(plugin[key])} is left out: ${why}`)
  })
}

function mtuRemarks(plugin: Json, type: string): readonly Remark[] {
  if ((lookUp(plugin, 'mtu') ?? 0) !== 0) return []
  const text = 'was not given, and the plugin defaults to 1500; "auto" follows the interfaces with a default route'
  return [note(`${type}.mtu`, text)]
}

/** With a trunk and no access VLAN, VLAN 1 stays with either value, so no remark is needed. */
function vlanRemarks(plugin: Json): readonly Remark[] {
  const vlan = lookUp(plugin, 'vlan') ?? 0
  const isGiven = (lookUp(plugin, 'preserveDefaultVlan') ?? undefined) !== undefined
  if (vlan === 0 || vlan === 1 || isGiven) return []
  const text =
    'was not given: the new value is false, as in plugins 1.9.1, and takes ports out of VLAN 1; older plugins left ' +
    'them in: write true to keep that'
  return [note('bridge.preserveDefaultVlan', text)]
}

/** The note on an IPAM plugin that trestle calls by delegation. */
function ipamRemarks(ipam: unknown): readonly Remark[] {
  const type = typeof ipam === 'object' && ipam !== null ? lookUp(ipam as Json, 'type') : undefined
  if (type === undefined || type === '' || inProcess.includes(type)) return []
  return [note('ipam.type', `trestle calls the plugin "${String(type)}" through CNI_PATH`)]
}

function backendRemarks(plugin: Json, type: string): readonly Remark[] {
  const backend = lookUp(plugin, 'ipMasqBackend')
  if (backend === undefined || backend === null || backend === '') return []
  const text = `"${String(backend)}" is left out: trestle masquerades with nftables, in its own tables`
  return [note(`${type}.ipMasqBackend`, text)]
}

// The upstream macvlan plugin (docs/design.md, "Upstream macvlan") with its IPAM, as keys of trestle.

/** Plugins that work on the host's end of the interface; a macvlan has no host end. */
const onHost: readonly unknown[] = ['portmap', 'bandwidth', 'firewall']

const macvlanKeys = [
  ...['type', 'name', 'cniVersion', 'capabilities', 'runtimeConfig', 'prevResult', 'args', 'dns', 'ipam', 'mtu'],
  ...['master', 'mode', 'mac', 'linkInContainer', 'bcqueuelen'],
]

/** True if mode macvlan can replace the plugin: its master is on the node, and no later plugin needs a host end. */
export function isPlainMacvlan(plugin: Json, others: readonly Json[]): boolean {
  return lookUp(plugin, 'linkInContainer') !== true && !others.some((other) => onHost.includes(lookUp(other, 'type')))
}

/** The keys for the interface. Upstream's defaults equal trestle's. */
export function convertMacvlan(plugin: Json): Converted {
  const [master, mode, mtu] = ['master', 'mode', 'mtu'].map((key) => lookUp(plugin, key))
  return {
    keys: {
      mode: 'macvlan',
      ...(master ? { master } : {}),
      ...(mode ? { macvlanMode: mode } : {}),
      ...(mtu ? { mtu } : {}),
      ...keptKeys(plugin),
    },
    remarks: [
      ...macRemarks(plugin),
      ...queueRemarks(plugin),
      ...ipamRemarks(lookUp(plugin, 'ipam')),
      ...unknownRemarks(plugin, { type: 'macvlan', known: macvlanKeys }),
    ],
  }
}

/** MACVLAN_DEFAULT_BC_QUEUE_LEN (drivers/net/macvlan.c), in packets; 0 selects the kernel's default. */
const usualQueue = 1000

function queueRemarks(plugin: Json): readonly Remark[] {
  const packets = lookUp(plugin, 'bcqueuelen') ?? 0
  if (packets === 0 || packets === usualQueue) return []
  const why = `trestle has no such key, and the broadcast queue holds the kernel's ${usualQueue} packets`
  return [warning('macvlan.bcqueuelen', `${JSON.stringify(packets)} is left out: ${why}`)]
}

function macRemarks(plugin: Json): readonly Remark[] {
  const mac = lookUp(plugin, 'mac')
  if (mac === undefined || mac === null || mac === '') return []
  const why = `every pod would get this MAC; for a MAC of its own declare the capability "mac"`
  return [warning('macvlan.mac', `${JSON.stringify(mac)} is left out: ${why}`)]
}
