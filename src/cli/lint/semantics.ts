// SPDX-License-Identifier: Apache-2.0
// Valid configurations of trestle that are probably a mistake: gateways out of reach, capabilities that do not fit,
// experimental features.

import { IPv4CidrRange, IPv6CidrRange } from 'ip-num'
import { lookUp } from '../../cni/json/json-keys.ts'
import { isObject } from '../../cni/json/json-object.ts'
import { familyOf, formatCidr, includes, networkOf, parseAddress, parseCidr } from '../../cni/model/address.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import { bridgeOf } from '../../plan/modes/modes.ts'
import { nearestWord } from '../shell/nearest-word.ts'
import type { Found } from './finding.ts'
import type { Step } from './json.ts'
import { keyPathOf, shown } from './json.ts'
import type { PluginEntry } from './list.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * Capabilities of CONVENTIONS.md of the CNI project, the pod's annotations, which containerd and CRI-O send by a name
 * of their own, and the device file, which Multus sends (pkg/types/conf.go; ovs-cni needs it for vDPA).
 */
const conventional = [
  ...['portMappings', 'ipRanges', 'bandwidth', 'dns', 'ips', 'mac', 'infinibandGUID', 'deviceID', 'aliases'],
  ...['cgroupPath', 'io.kubernetes.cri.pod-annotations', 'CNIDeviceInfoFile'],
]

/** Findings about one trestle plugin; `conf`: as ADD reads it. */
export function ownSemantics(entry: PluginEntry, conf: NetConf): readonly Found[] {
  const at = (found: Found): Found => ({ ...found, steps: [...entry.steps, ...(found.steps ?? [])] })
  return [
    ...gateways(entry.conf),
    ...masquerade(conf),
    ...experiments(conf),
    ...portmapKey(entry.conf),
    ...firewallKeys(conf),
  ].map(at)
}

/** Findings about any plugin of a list. */
export function pluginSemantics({ conf, steps }: PluginEntry): readonly Found[] {
  const declared = isObject(conf['capabilities']) ? Object.entries(conf['capabilities']) : []
  const inFile = ['runtimeConfig', 'prevResult'].filter((key) => conf[key] !== undefined && !isHollow(conf[key]))
  return [
    ...declared.flatMap(([name, value]) => capability(name, value, [...steps, 'capabilities', name])),
    ...inFile.map((key): Found => {
      const message = `${key} comes from a runtime, and is in the file`
      return { id: 'runtime-config-in-file', message, steps: [...steps, key] }
    }),
  ]
}

/** Whether an object has no value, as generators write {"dns": {}}: a pod gets nothing of it. */
function isHollow(value: unknown): boolean {
  return value === null || (isObject(value) && Object.values(value).every(isHollow))
}

function capability(name: string, value: unknown, steps: readonly Step[]): readonly Found[] {
  if (typeof value !== 'boolean') {
    const message = `${keyPathOf(steps)}: ${shown(value)} is not true or false`
    return [{ id: 'wrong-type', message, cure: 'use true or false, without quotes', steps }]
  }
  if (conventional.includes(name)) return []
  const meant = nearestWord(name, conventional)
  const message = `no runtime sends the capability ${shown(name)}`
  if (meant === undefined) return [{ id: 'capability-unknown', message, steps }]
  return [
    { id: 'capability-unknown', message: `${message}; did you mean "${meant}"?`, cure: `write "${meant}"`, steps },
  ]
}

/** A gateway outside its subnet. The plugin takes it, as upstream does. */
export function gateways(conf: Fields): readonly Found[] {
  const ipam = isObject(conf['ipam']) ? conf['ipam'] : {}
  const sets = Array.isArray(ipam['ranges']) ? ipam['ranges'] : []
  const ranges = sets.flatMap((set: unknown, i) =>
    (Array.isArray(set) ? set : []).map((range: unknown, j) => gateway(range, 'subnet', ['ipam', 'ranges', i, j])),
  )
  const addresses = Array.isArray(ipam['addresses']) ? ipam['addresses'] : []
  const fixed = addresses.map((each: unknown, at) => gateway(each, 'address', ['ipam', 'addresses', at]))
  return [gateway(ipam, 'subnet', ['ipam']), ...ranges, ...fixed].flat()
}

function gateway(value: unknown, key: 'subnet' | 'address', steps: readonly Step[]): readonly Found[] {
  if (!isObject(value) || typeof value['gateway'] !== 'string') return []
  const network = parseCidr(String(value[key] ?? ''))
  const address = parseAddress(value['gateway'])
  if (network === undefined || address === undefined || includes(network, address)) return []
  const message = `${keyPathOf([...steps, 'gateway'])}: ${value['gateway']} is not in ${value[key]}`
  return [{ id: 'gateway-outside-subnet', message, steps: [...steps, 'gateway'], isAboutValue: true }]
}

function masquerade(conf: NetConf): readonly Found[] {
  const { ipMasq, bridge, ipam } = conf
  if (bridgeOf(conf) === undefined || !ipMasq || bridge.isGateway || ipam.kind === 'none') return []
  return [
    {
      id: 'masquerade-without-gateway',
      message: 'ipMasq is set, and the bridge is no gateway',
      steps: ['ipMasq'],
    },
  ]
}

function experiments(conf: NetConf): readonly Found[] {
  const { bridge } = conf
  if (bridgeOf(conf) === undefined) return []
  const used = [
    ...(bridge.vlan > 0 ? ['vlan'] : []),
    ...(bridge.vlanTrunk === undefined ? [] : ['vlanTrunk']),
    ...(bridge.preserveDefaultVlan ? ['preserveDefaultVlan'] : []),
  ]
  return used.map((key) => {
    return { id: 'experimental', message: `${key} needs a kernel with CONFIG_BRIDGE_VLAN_FILTERING`, steps: [key] }
  })
}

function portmapKey(conf: Fields): readonly Found[] {
  const capabilities = isObject(conf['capabilities']) ? conf['capabilities'] : {}
  if (conf['portmap'] === undefined || capabilities['portMappings'] === true) return []
  const message = 'portmap is set, and the capability portMappings is not declared: no pod gets a host port'
  const cure = 'add "capabilities": {"portMappings": true}'
  return [{ id: 'capability-missing', message, cure, steps: ['portmap'] }]
}

/** The upstream portmap gets no mappings without the capability, unless the file has them. */
export function portmapPlugin({ conf, steps }: PluginEntry): readonly Found[] {
  const declared = lookUp(conf, 'capabilities')
  const names = isObject(declared) ? declared : {}
  const isMisspelt = Object.keys(names).some((name) => !conventional.includes(name))
  const isGiven = names['portMappings'] === true || isMisspelt || lookUp(conf, 'runtimeConfig') !== undefined
  if (lookUp(conf, 'type') !== 'portmap' || isGiven) return []
  const message = 'portmap does nothing without the capability portMappings: no pod gets a host port'
  const cure = 'add "capabilities": {"portMappings": true}'
  return [{ id: 'capability-missing', message, cure, steps, isAbsence: true }]
}

/** Keys of hostAccept that its mode ignores, and a zone that lets pods into the node. */
function firewallKeys({ firewall }: NetConf): readonly Found[] {
  if (firewall === undefined) return []
  const { hostAccept, acceptFrom, acceptMarkBit, firewalldZone } = firewall
  const isVoid = (key: string): Found => {
    const message = `firewall.${key} has no effect: hostAccept is "${hostAccept}"`
    return { id: 'no-effect', message, steps: ['firewall', key] }
  }
  if (hostAccept === 'off') {
    const given = Object.entries({ acceptFrom, acceptMarkBit, firewalldZone }).filter(
      ([, value]) => value !== undefined,
    )
    return given.map(([key]) => isVoid(key))
  }
  const ofFrom = hostAccept === 'established' && acceptFrom !== undefined ? [isVoid('acceptFrom')] : []
  if (firewalldZone === undefined) return ofFrom
  const message = `pods in firewalld's zone ${shown(firewalldZone)} reach ports that the zone opens on the node`
  return [...ofFrom, { id: 'zone-opens-node', message, steps: ['firewall', 'firewalldZone'] }]
}

// Subnets that two networks of one node share.

/** The subnets of a plugin's pools in canonical text, of any IPAM. */
export function subnetsOf({ conf }: PluginEntry): readonly string[] {
  const ipam = isObject(conf['ipam']) ? conf['ipam'] : {}
  const sets: unknown[] = Array.isArray(ipam['ranges']) ? ipam['ranges'].flat() : []
  const ranges = [ipam, ...sets].flatMap((range) => (isObject(range) ? [range['subnet']] : []))
  const short = Array.isArray(conf['podcidr']) ? conf['podcidr'] : [conf['podcidr']]
  return [...short, ...ranges].flatMap(canonical)
}

/** A subnet in canonical text; nothing for any other value. */
export function canonical(text: unknown): readonly string[] {
  const cidr = typeof text === 'string' ? parseCidr(text) : undefined
  return cidr === undefined ? [] : [formatCidr(networkOf(cidr))]
}

/** The first pair of subnets that overlap. */
export function overlapOf(ours: readonly string[], theirs: readonly string[]): readonly [string, string] | undefined {
  for (const a of ours) {
    const b = theirs.find((other) => isOverlap(a, other))
    if (b !== undefined) return [a, b]
  }
  return undefined
}

/** Of two overlapping prefixes one contains the other. */
function isOverlap(a: string, b: string): boolean {
  if (familyOf(a) !== familyOf(b)) return false
  if (familyOf(a) === 6) {
    const [one, other] = [IPv6CidrRange.fromCidr(a), IPv6CidrRange.fromCidr(b)]
    return one.contains(other) || other.contains(one)
  }
  const [one, other] = [IPv4CidrRange.fromCidr(a), IPv4CidrRange.fromCidr(b)]
  return one.contains(other) || other.contains(one)
}
