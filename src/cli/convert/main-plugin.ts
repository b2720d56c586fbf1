// SPDX-License-Identifier: Apache-2.0
// The upstream bridge and ptp plugins (docs/design.md, "Upstream bridge and ptp") with their IPAM, as keys of ours.

import { lookUp } from '../../cni/json/json-keys.ts'
import { isRemark } from '../lint/rules/unknown-keys.ts'
import { note, type Remark, warning } from './remarks.ts'

/** Keys of a plugin's object, with what was to be said about those that are left out. */
export interface Converted {
  readonly keys: Readonly<Record<string, unknown>>
  readonly remarks: readonly Remark[]
}

type Json = Readonly<Record<string, unknown>>

/** Keys that mean the same here, with upstream's default. `undefined`: written only where it is given. */
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

/** Keys of every plugin, and those that the list's own conversion reads. */
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

/** IPAM plugins whose work is done in-process. */
const inProcess: readonly unknown[] = ['host-local', 'static']

/** The keys of a bridge or ptp for the interface. Every default that differs from ours is written out. */
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
      // Upstream lets isDefaultGateway imply it.
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

/** Keys that are taken over as they are. */
export function keptKeys(plugin: Json): Json {
  const kept = ['ipam', 'dns', 'args'].map((key) => [key, lookUp(plugin, key)] as const)
  return Object.fromEntries(kept.filter(([, value]) => value !== undefined && value !== null))
}

/** What is said of keys that are not known and go: a person's remarks need no word, all else may be meant. */
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
  const text = 'was not given, which is 1500 there; "auto" follows the interfaces with a default route'
  return [note(`${type}.mtu`, text)]
}

/** With a trunk alone, VLAN 1 stays in either case. */
function vlanRemarks(plugin: Json): readonly Remark[] {
  const vlan = lookUp(plugin, 'vlan') ?? 0
  const isGiven = (lookUp(plugin, 'preserveDefaultVlan') ?? undefined) !== undefined
  if (vlan === 0 || vlan === 1 || isGiven) return []
  const text =
    'was not given: false, as in plugins 1.9.1, so that ports leave VLAN 1; for older ones it is true: write true to ' +
    'keep what these did'
  return [note('bridge.preserveDefaultVlan', text)]
}

/** What is said of an IPAM plugin that stays one. */
export function ipamRemarks(ipam: unknown): readonly Remark[] {
  const type = typeof ipam === 'object' && ipam !== null ? lookUp(ipam as Json, 'type') : undefined
  if (type === undefined || type === '' || inProcess.includes(type)) return []
  return [note('ipam.type', `"${String(type)}" stays a plugin of its own, called through CNI_PATH`)]
}

function backendRemarks(plugin: Json, type: string): readonly Remark[] {
  const backend = lookUp(plugin, 'ipMasqBackend')
  if (backend === undefined || backend === null || backend === '') return []
  const text = `"${String(backend)}": masquerading is always by nftables, in tables of trestle's own`
  return [note(`${type}.ipMasqBackend`, text)]
}
