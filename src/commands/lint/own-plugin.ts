// SPDX-License-Identifier: Apache-2.0
// A plugin of type trestle: types by the plugin's own schema, values by the plugin's own reading of an ADD, so that
// lint and ADD never disagree.

import { safeParse } from 'zod/mini'
import { ownType, readCall } from '../../cni/call.ts'
import { CniError } from '../../cni/errors.ts'
import { complaint, withKnownKeys } from '../../cni/fields.ts'
import { asObject, isObject, lookUp } from '../../cni/json.ts'
import { atLeast, type CniVersion } from '../../cni/results.ts'
import type { Mode, OwnConf } from '../../config/network-conf.ts'
import { readConfig } from '../../config/read-config.ts'
import { schemas } from '../../config/schema.ts'
import { withoutUnreadArgs } from '../../features/tuning.ts'
import { asOwn } from '../own-type.ts'
import { type Found, keyPathOf, type Step } from './finding.ts'
import type { PluginEntry } from './list.ts'
import { unknownKeys, withKeys } from './unknown-keys.ts'
import { commonKeys } from './upstream.ts'

export interface NetworkHead {
  readonly name: string
  readonly version: CniVersion
}

/** The findings, or the configuration that an ADD would read. */
interface OwnRead {
  readonly found: readonly Found[]
  readonly conf?: OwnConf
}

type Fields = Readonly<Record<string, unknown>>

const mostErrors = 12

/** Reads one trestle plugin as ADD would, which stops at the first error but those of types. */
export function readOwn(entry: PluginEntry, head: NetworkHead): OwnRead {
  const wrongTypes = typeProblems(entry)
  if (wrongTypes.length > 0) return { found: wrongTypes }
  const read = readOnce(entry, head)
  return read instanceof CniError ? { found: [problemOf(read, entry)] } : { found: [], conf: read }
}

function typeProblems({ conf, steps }: PluginEntry): readonly Found[] {
  const known = withoutUnreadArgs(asObject(withKnownKeys(conf, schemas.own.keys)))
  const parsed = safeParse(schemas.own.schema, known)
  if (parsed.success) return []
  return parsed.error.issues.slice(0, mostErrors).map((issue): Found => {
    const path = issue.path.map((step) => (typeof step === 'symbol' ? String(step) : step))
    const error = complaint(issue, known, [])
    return { id: error.id, message: error.message, cure: error.details, steps: [...steps, ...path], isAboutValue: true }
  })
}

function readOnce(entry: PluginEntry, head: NetworkHead): OwnConf | CniError {
  const sent = {
    ...asOwn({ ...entry.conf, type: String(entry.conf['type'] ?? ownType) }),
    ...fromRuntime(entry, head),
    type: ownType,
    name: head.name,
    cniVersion: head.version,
  }
  try {
    const read = readConfig(JSON.stringify(sent), call)
    if (read.mode !== 'ipam') return read
  } catch (thrown) {
    if (thrown instanceof CniError) return thrown
    throw thrown
  }
  throw new Error(`a plugin of type ${ownType} is read as another plugin's`)
}

const call = readCall({
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: 'example',
  CNI_NETNS: '/run/netns/example',
  CNI_IFNAME: 'eth0',
})

/** A runtime's additions: addresses for declared capabilities, and the result of the previous plugin. */
function fromRuntime({ conf, index }: PluginEntry, { version }: NetworkHead): Fields {
  const declared = isObject(conf['capabilities']) ? conf['capabilities'] : {}
  const ipam = isObject(conf['ipam']) ? conf['ipam'] : {}
  const hasRanges = ipam['subnet'] !== undefined || ipam['ranges'] !== undefined
  const given = {
    ...(declared['ipRanges'] === true && !hasRanges ? { ipRanges: [[{ subnet: '192.0.2.0/24' }]] } : {}),
    ...(declared['ips'] === true && ipam['type'] === 'static' ? { ips: ['192.0.2.9/24'] } : {}),
    ...(declared['deviceID'] === true ? { deviceID: '0000:00:00.0' } : {}),
  }
  return {
    ...(Object.keys(given).length > 0 ? { runtimeConfig: given } : {}),
    ...(index > 0 ? { prevResult: resultOf(version) } : {}),
  }
}

/** A pod's result in the shape of the version. */
function resultOf(version: CniVersion): Fields {
  if (!atLeast(version, '0.3.0')) return { cniVersion: version, ip4: { ip: '192.0.2.2/24' } }
  const interfaces = [{ name: 'eth0', mac: '0a:00:00:00:00:01', sandbox: '/run/netns/example' }]
  return { cniVersion: version, interfaces, ips: [{ version: '4', address: '192.0.2.2/24', interface: 0 }] }
}

function problemOf(error: CniError, { steps }: PluginEntry): Found {
  const { path = [], message, details } = error
  const id = checkOf(error)
  if (id === 'chained-first') return { id, message: 'mode chained needs a plugin before it', steps: [...steps, 'mode'] }
  const found: Found = { id, message, cure: details, steps: [...steps, ...path] }
  return absences.includes(error.id) ? { ...found, isAbsence: true } : found
}

/** Errors about an absent key, which may only be misspelt. */
const absences: readonly string[] = ['ranges-missing', 'ipam-missing', 'device-keys']

function checkOf({ id, path = [] }: CniError): string {
  if (id === 'unsupported-value' || id === 'chained-first') return id
  const isOfPool = path[0] === 'ipam' || path[0] === 'podcidr'
  return isOfPool ? (checksOfPool[id] ?? 'invalid-value') : 'invalid-value'
}

const checksOfPool: Readonly<Partial<Record<string, string>>> = {
  'ranges-overlap': 'ranges-overlap',
  'ranges-missing': 'range-invalid',
  'range-subnet': 'range-invalid',
  'range-bound': 'range-invalid',
  'range-gateway': 'range-invalid',
  'range-set-empty': 'range-invalid',
  'range-set-families': 'range-invalid',
  'podcidr-invalid': 'range-invalid',
  'static-address-invalid': 'range-invalid',
  'route-destination': 'range-invalid',
}

/** Types of IPAM whose keys trestle reads itself; `type`: its own name here. */
function isInProcess(ipamType: unknown, type: unknown): boolean {
  return ['host-local', 'static', '', ownType, type, undefined, null].includes(ipamType as string)
}

/** Unknown keys; keys in `ipam` of another plugin are that plugin's. */
export function unknownOwnKeys(conf: Readonly<Record<string, unknown>>, steps: readonly Step[]): readonly Found[] {
  const shape = withKeys(schemas.own.keys ?? {}, [...commonKeys, 'labels'])
  const ipam = lookUp(conf, 'ipam')
  const isDelegated = isObject(ipam) && !isInProcess(lookUp(ipam, 'type'), lookUp(conf, 'type'))
  const found = unknownKeys(conf, steps, { shape, whole: shape, what: 'trestle' })
  return isDelegated ? found.filter((each) => String(each.steps?.[steps.length]).toLowerCase() !== 'ipam') : found
}

// Keys of trestle that are accepted and have no effect: for iptables, or in this mode.

/** In every mode, with the reason. */
const everywhere: Readonly<Record<string, string>> = {
  ipMasqBackend: 'trestle always uses nftables',
  'portmap.backend': 'trestle always uses nftables',
  'portmap.markMasqBit': 'trestle marks no packets',
  'portmap.externalSetMarkChain': 'trestle marks no packets',
  'firewall.backend': 'trestle always uses nftables',
  'firewall.iptablesAdminChainName': 'trestle has no chain in iptables',
  'tuning.dataDir': 'earlier values are kept in /run/trestle',
}

/** What `args.cni` may set of a link, beside `tuning` alone. */
const tuningArgs = ['sysctl', 'promisc', 'mtu', 'allmulti', 'txQLen'].map((key) => ['args', 'cni', key])

/** Findings about one plugin that runs in `mode`. A key that asks for nothing (false, 0, "") is ignored. */
export function keysWithoutEffect({ conf, steps }: PluginEntry, mode: Mode): readonly Found[] {
  const found = (path: readonly string[], reason: string): readonly Found[] => {
    const value = path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), conf)
    if ([undefined, null, false, 0, '', 'off'].includes(value as never)) return []
    const message = `${keyPathOf(path)} has no effect: ${reason}`
    return [{ id: 'no-effect', message, steps: [...steps, ...path] }]
  }
  const isTuned = isObject(lookUp(conf, 'tuning')) || unreadKeys[mode].includes('tuning')
  const untuned = isTuned ? [] : tuningArgs
  return [
    ...untuned.flatMap((path) => found(path, 'args.cni changes sysctls and link settings only beside "tuning": {}')),
    ...Object.entries(everywhere).flatMap(([path, reason]) => found(path.split('.'), reason)),
    ...unreadKeys[mode].flatMap((key) => found(key.split('.'), `with mode ${mode} it is not read`)),
  ]
}

// The keys that have no effect in a mode, with dots for levels.

/** Keys of a bridge and its ports. */
const bridgeKeys = [
  ...['bridge', 'hairpinMode', 'forceAddress', 'promiscMode', 'portIsolation', 'vlan', 'vlanTrunk'],
  ...['preserveDefaultVlan', 'macspoofchk'],
]

/** Keys of an interface that a mode makes. */
const interfaceKeys = [
  ...['podcidr', 'ipam', 'dns', 'isGateway', 'isDefaultGateway', 'mtu', 'enabledad', 'disableContainerInterface'],
]

/** Keys of features. */
const featureKeys = [
  ...['portmap', 'firewall', 'bandwidth', 'tuning', 'sbr', 'ipMasq', 'nonMasqueradeCIDRs'],
  ...['removeWhenEmpty', 'allowOverlap'],
]

/** Keys of modes without an end of the interface on the host. */
const hostEndKeys = [...bridgeKeys, 'isGateway', 'ipMasq', 'nonMasqueradeCIDRs', 'portmap', 'firewall']

/** Keys of one mode alone. */
const masterKeys = ['master', 'macvlanMode']
const deviceKeys = ['device', 'hwaddr', 'kernelpath', 'pciBusID']
const foreignKeys = [...masterKeys, ...deviceKeys]

const unreadKeys: Readonly<Record<Mode, readonly string[]>> = {
  bridge: foreignKeys,
  ptp: [...bridgeKeys, ...foreignKeys],
  macvlan: [...hostEndKeys, ...deviceKeys],
  'host-device': [...hostEndKeys, ...masterKeys],
  loopback: [...bridgeKeys, ...foreignKeys, ...interfaceKeys, ...featureKeys],
  chained: [...bridgeKeys, ...foreignKeys, ...interfaceKeys],
}
