// SPDX-License-Identifier: Apache-2.0
// Values of the upstream plugins (containernetworking/plugins 1.9.1): types as Go unmarshals them, bounds and words as
// the plugins check them. A value of null is none, as in Go.

import { posix } from 'node:path'
import { lookUp } from '../../cni/json/json-keys.ts'
import { isObject } from '../../cni/json/json-object.ts'
import type { Found } from './finding.ts'
import type { Step } from './json.ts'
import { keyPathOf, shown } from './json.ts'
import type { PluginEntry } from './list.ts'

/** What a value has to be. `isType`: Go can read it; `isValid`: the plugin or the kernel takes it. */
export interface Kind {
  readonly what: string
  readonly isType: (value: unknown) => boolean
  readonly isValid?: (value: never) => boolean
  /** Of a value of another type; `bounded`: of one out of its bounds, where that is another. */
  readonly cure: string
  readonly bounded?: string
}

const isText = (value: unknown): value is string => typeof value === 'string'

const flag: Kind = {
  what: 'true or false',
  isType: (value) => typeof value === 'boolean',
  cure: 'use true or false, without quotes',
}
/** As Go's string. */
export const text: Kind = { what: 'text', isType: isText, cure: 'use text in quotes' }
/** As Go's []string. */
export const texts: Kind = {
  what: 'a list of texts',
  isType: (value) => Array.isArray(value) && value.every(isText),
  cure: 'use [ "…", "…" ]',
}
const settings: Kind = {
  what: 'an object of texts',
  isType: (value) => isObject(value) && Object.values(value).every(isText),
  cure: 'put every value in quotes, numbers as well',
}
/** IFNAMSIZ of the kernel is 16 with the end of the text. */
const link: Kind = {
  what: 'a name of an interface: 1 to 15 bytes, without /, : and blanks',
  isType: isText,
  isValid: (value: string) => value === '' || (Buffer.byteLength(value) <= 15 && !/[/:\s]/.test(value)),
  cure: 'use a shorter name, or leave it out',
}
const integer = (from: number, to: number, unit = ''): Kind => ({
  what: `a whole number from ${from} to ${to}${unit}`,
  isType: (value) => Number.isInteger(value),
  isValid: (value: number) => value >= from && value <= to,
  cure: 'use a number without quotes',
  bounded: `use a number from ${from} to ${to}, or leave it out`,
})
const words = (...allowed: readonly string[]): Kind => ({
  what: `one of ${allowed.map((word) => `"${word}"`).join(', ')}`,
  isType: isText,
  isValid: (value: string) => value === '' || allowed.includes(value),
  cure: `use ${allowed.map((word) => `"${word}"`).join(' or ')}`,
})

/** The kernel's bounds: 68 bytes for IPv4 at least; 0 leaves it to the plugin. */
const mtu: Kind = {
  what: 'an MTU: 0, or 68 to 65535 bytes',
  isType: (value) => Number.isInteger(value),
  isValid: (value: number) => value === 0 || (value >= 68 && value <= 65_535),
  cure: 'use a number without quotes, 1500 as a rule, or leave it out',
  bounded: "use the uplink's, 1500 as a rule, or leave it out",
}
const bits = integer(0, Number.MAX_SAFE_INTEGER, ', in bits (a second)')
const filter = words('iptables', 'nftables')

const veth = { mtu, ipMasq: flag, ipMasqBackend: filter }
const onMaster = { master: link, mtu, linkInContainer: flag }

const kinds: Readonly<Record<string, Readonly<Record<string, Kind>>>> = {
  bridge: {
    ...veth,
    ...{
      bridge: link,
      isGateway: flag,
      isDefaultGateway: flag,
      forceAddress: flag,
      hairpinMode: flag,
      promiscMode: flag,
    },
    ...{ vlan: integer(0, 4094), preserveDefaultVlan: flag, macspoofchk: flag, enabledad: flag },
    ...{ disableContainerInterface: flag, portIsolation: flag },
  },
  ptp: veth,
  macvlan: { ...onMaster, mode: words('bridge', 'private', 'vepa', 'passthru'), mac: text },
  ipvlan: { ...onMaster, mode: words('l2', 'l3', 'l3s') },
  vlan: { ...onMaster, vlanId: integer(0, 4094) },
  'host-device': { device: link, hwaddr: text, kernelpath: text, pciBusID: text },
  tap: { mtu, multiQueue: flag, mac: text, bridge: link },
  portmap: {
    ...{ snat: flag, masqAll: flag, markMasqBit: integer(0, 31), externalSetMarkChain: text, backend: filter },
    ...{ conditionsV4: texts, conditionsV6: texts },
  },
  bandwidth: { ingressRate: bits, ingressBurst: bits, egressRate: bits, egressBurst: bits },
  firewall: {
    backend: words('iptables', 'firewalld'),
    ingressPolicy: words('open', 'same-bridge', 'isolated'),
    ...{ iptablesAdminChainName: text, firewalldZone: text },
  },
  tuning: {
    sysctl: settings,
    mac: text,
    promisc: flag,
    mtu,
    txQLen: integer(0, 2 ** 31 - 1),
    allmulti: flag,
    dataDir: text,
  },
  sbr: { table: integer(1, 2 ** 31 - 1), addSourceHints: flag },
  vrf: { vrfname: link, table: integer(0, 2 ** 32 - 1) },
}

/** What is wrong with the values of an upstream plugin; nothing for a plugin that is none of them. */
export function valueProblems({ conf, steps }: PluginEntry, type: string): readonly Found[] {
  if (!Object.hasOwn(kinds, type)) return []
  const found = Object.entries(kinds[type] ?? {}).flatMap(([key, kind]) =>
    valueProblem(lookUp(conf, key), kind, [...steps, key]),
  )
  return found.length > 0
    ? found
    : (contradictions[type]?.(conf) ?? []).map((each) => ({ ...each, steps: [...steps, ...each.steps] }))
}

/** What is wrong with one value; a value of null is none, as in Go. */
export function valueProblem(value: unknown, kind: Kind, steps: readonly Step[]): readonly Found[] {
  const { what, isType, isValid } = kind
  if (value === undefined || value === null) return []
  const message = `${keyPathOf(steps)}: ${shown(value)} is not ${what}`
  if (!isType(value)) return [{ id: 'wrong-type', message, cure: kind.cure, steps, isAboutValue: true }]
  if (isValid === undefined || isValid(value as never)) return []
  return [{ id: 'invalid-value', message, cure: kind.bounded ?? kind.cure, steps, isAboutValue: true }]
}

type Fields = Readonly<Record<string, unknown>>
type Contradiction = Found & { readonly steps: readonly Step[] }

/** Keys that refuse each other, or need one another, in the plugins' own checks. */
const contradictions: Readonly<Record<string, (conf: Fields) => readonly Contradiction[]>> = {
  bridge: (conf) =>
    conf['hairpinMode'] === true && conf['promiscMode'] === true
      ? [invalid('promiscMode', 'promiscMode and hairpinMode cannot both be true', 'remove one of them')]
      : [],
  portmap: (conf) =>
    conf['externalSetMarkChain'] !== undefined && conf['markMasqBit'] !== undefined
      ? [invalid('markMasqBit', 'markMasqBit and externalSetMarkChain cannot both be there', 'remove one of them')]
      : [],
  bandwidth: (conf) => [...rate(conf, 'ingress'), ...rate(conf, 'egress')],
  tuning: sysctlsOfNode,
  vlan: (conf) => (isSet(conf, 'master') ? [] : [absent('vlan needs a master', 'add "master": "eth0"')]),
  vrf: (conf) => (isSet(conf, 'vrfname') ? [] : [absent('vrf needs a vrfname', 'add "vrfname": "blue"')]),
  'host-device': (conf) => {
    const isGiven = ['device', 'hwaddr', 'kernelpath', 'pciBusID', 'deviceID'].some((key) => isSet(conf, key))
    const isSent = isObject(conf['capabilities']) && conf['capabilities']['deviceID'] === true
    const message = 'host-device names no device: device, hwaddr, kernelpath or pciBusID'
    return isGiven || isSent ? [] : [{ id: 'invalid-value', message, cure: 'add one of them', steps: [] }]
  },
}

/** As the plugin: every dot is a slash, and the path has to stay below /proc/sys/net. */
function sysctlsOfNode(conf: Fields): readonly Contradiction[] {
  const sysctl = lookUp(conf, 'sysctl')
  const keys = isObject(sysctl) ? Object.keys(sysctl) : []
  const others = keys.filter((key) => !posix.join('/proc/sys', key.replaceAll('.', '/')).startsWith('/proc/sys/net/'))
  const cure = 'use a key below net; kubelet sets others from securityContext.sysctls'
  return others.map((key) => ({
    ...invalid('sysctl', `sysctl: ${shown(key)} is no key below net, and tuning sets no others`, cure),
    steps: ['sysctl', key],
  }))
}

function isSet(conf: Fields, key: string): boolean {
  const value = lookUp(conf, key)
  return value !== undefined && value !== null && value !== ''
}

function rate(conf: Fields, way: 'ingress' | 'egress'): readonly Contradiction[] {
  const [speed, burst] = [Number(conf[`${way}Rate`] ?? 0), Number(conf[`${way}Burst`] ?? 0)]
  if (speed > 0 === burst > 0)
    return burst / 8 > 2 ** 32 - 1 ? [invalid(`${way}Burst`, `${way}Burst is more than 4 GiB`, 'use less')] : []
  const [has, lacks] = speed > 0 ? ['Rate', 'Burst'] : ['Burst', 'Rate']
  return [invalid(`${way}${has}`, `${way}${has} is set and ${way}${lacks} is not`, `add ${way}${lacks}`)]
}

function invalid(key: string, message: string, cure: string): Contradiction {
  return { id: 'invalid-value', message, cure, steps: [key] }
}

function absent(message: string, cure: string): Contradiction {
  return { id: 'invalid-value', message, cure, steps: [], isAbsence: true }
}
