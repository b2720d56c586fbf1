// SPDX-License-Identifier: Apache-2.0
// Configurations that ADD accepts and that cannot mean what they say: keys without effect, a gateway out of reach, a
// range without a free address, capabilities that do not fit.

import { formatCidr, includes, networkOf, parseAddress, parseCidr } from '../../cni/addresses.ts'
import { asObject, isObject, lookUp } from '../../cni/json.ts'
import type { Mode, OwnConf } from '../../config/network-conf.ts'
import { keyPathOf, shown } from '../json-text.ts'
import { nearestWord } from '../nearest-word.ts'
import type { PluginEntry } from '../network-list.ts'
import type { Found } from './finding.ts'

/** Of a plugin that ADD takes. */
export function contradictionsOf({ conf: written, steps }: PluginEntry, conf: OwnConf): readonly Found[] {
  const found = [
    ...gateways(written),
    ...capabilitiesUnfit(written, conf),
    ...families(written, conf),
    ...sbrWithoutGateway(conf),
  ]
  return found.map((each) => ({ ...each, steps: [...steps, ...(each.steps ?? [])] }))
}

/** A gateway outside its subnet. The plugin takes it, as the reference plugin does. */
function gateways(conf: PluginEntry['conf']): readonly Found[] {
  return rangesIn(conf).flatMap(({ range, steps }): readonly Found[] => {
    const [subnet, gateway] = [parseCidr(String(range['subnet'])), parseAddress(String(range['gateway']))]
    if (subnet === undefined || gateway === undefined || includes(subnet, gateway)) return []
    const at = [...steps, 'gateway']
    const message = `${keyPathOf(at)}: ${range['gateway']} is not in ${range['subnet']}`
    return [{ id: 'gateway-outside-subnet', message, steps: at, isAboutValue: true }]
  })
}

/** Host ports without the capability that brings them, and sbr or host ports where nothing reads them. */
function capabilitiesUnfit(written: PluginEntry['conf'], conf: OwnConf): readonly Found[] {
  const hasHostEnd = conf.mode !== 'macvlan' && conf.mode !== 'host-device'
  if (!hasHostEnd && conf.capabilities.includes('portMappings')) {
    const message = `mode ${conf.mode} has no end on the host: an ADD with a host port is refused`
    return [{ id: 'no-effect', message, steps: ['capabilities', 'portMappings'] }]
  }
  if (written['portmap'] === undefined || conf.capabilities.includes('portMappings') || !hasHostEnd) return []
  const message = 'portmap is set, and the capability portMappings is not declared: no pod gets a host port'
  const cure = 'add "capabilities": {"portMappings": true}'
  return [{ id: 'capability-missing', message, cure, steps: ['portmap'] }]
}

/** A sysctl of a family that the pod has no address of. */
function families(written: PluginEntry['conf'], { ipam, capabilities }: OwnConf): readonly Found[] {
  // A runtime's ranges may be of either family.
  if (ipam.kind !== 'pool' || capabilities.includes('ipRanges')) return []
  const subnets = ipam.rangeSets.flat().map(({ subnet }) => subnet)
  const found: Found[] = []
  for (const name of Object.keys(asObject(lookUp(asObject(lookUp(written, 'tuning')), 'sysctl')))) {
    const family = /^net[./]ipv([46])[./]/.exec(name)?.[1]
    if (family === undefined || subnets.some((subnet) => subnet.includes(':') === (family === '6'))) continue
    // Many settings of IPv4 act on TCP of both families.
    if (family === '4' && !/^net[./]ipv4[./](?:conf|neigh)[./]/.test(name)) continue
    // A link has IPv6 of its own: these keep it away, or let a router give addresses.
    if (/[./](?:disable_ipv6|accept_ra\w*|autoconf|addr_gen_mode|use_tempaddr)$/.test(name)) continue
    const message = `${name} has no effect: pods have no IPv${family} address`
    found.push({ id: 'no-effect', message, steps: ['tuning', 'sysctl'] })
  }
  return found
}

function sbrWithoutGateway({ ipam, sbr }: OwnConf): readonly Found[] {
  if (sbr === undefined || sbr.gateways.length > 0 || ipam.kind !== 'static') return []
  if (ipam.addresses.some(({ gateway }) => gateway !== undefined)) return []
  const message = 'sbr has no gateway: its table gets only the route to the subnet'
  return [{ id: 'no-effect', message, cure: 'add a gateway to ipam.addresses, or sbr.gateways', steps: ['sbr'] }]
}

/** Capabilities of CONVENTIONS.md of the CNI project, and what containerd, CRI-O and Multus send besides. */
const conventional = [
  ...['portMappings', 'ipRanges', 'bandwidth', 'dns', 'ips', 'mac', 'infinibandGUID', 'deviceID', 'aliases'],
  ...['cgroupPath', 'io.kubernetes.cri.pod-annotations', 'CNIDeviceInfoFile'],
]

/** Of a plugin of any type: capabilities that no runtime sends, and what only a runtime may say. */
export function runtimeKeys({ conf, steps }: PluginEntry): readonly Found[] {
  const found: Found[] = []
  for (const [name, value] of Object.entries(asObject(lookUp(conf, 'capabilities')))) {
    if (typeof value !== 'boolean' || conventional.includes(name)) continue
    const meant = nearestWord(name, conventional)
    const hint = meant === undefined ? '' : `; did you mean "${meant}"?`
    const cure = meant === undefined ? undefined : `write "${meant}"`
    const message = `no runtime sends the capability ${shown(name)}${hint}`
    found.push({ id: 'capability-unknown', message, cure, steps: [...steps, 'capabilities', name] })
  }
  for (const key of ['runtimeConfig', 'prevResult']) {
    if (isHollow(conf[key])) continue
    const message = `${key} comes from a runtime, and is in the file`
    found.push({ id: 'runtime-config-in-file', message, steps: [...steps, key] })
  }
  return found
}

/** Whether an object has no value, as generators write {"dns": {}}: a pod gets nothing of it. */
function isHollow(value: unknown): boolean {
  return value === undefined || value === null || (isObject(value) && Object.values(value).every(isHollow))
}

/** The ranges as written, with their places. */
function rangesIn(conf: PluginEntry['conf']) {
  const ipam = asObject(lookUp(conf, 'ipam'))
  const found = [{ range: ipam, steps: ['ipam'] as readonly (string | number)[] }]
  for (const [i, set] of (Array.isArray(ipam['ranges']) ? ipam['ranges'] : []).entries()) {
    for (const [j, range] of (Array.isArray(set) ? set : []).entries()) {
      if (isObject(range)) found.push({ range, steps: ['ipam', 'ranges', i, j] })
    }
  }
  return found
}

/** The subnets of a plugin's pools, of any IPAM, in canonical text. */
export function subnetsOf({ conf }: PluginEntry): readonly string[] {
  const podcidr = Array.isArray(conf['podcidr']) ? conf['podcidr'] : [conf['podcidr']]
  const all = [...rangesIn(conf).map(({ range }) => range['subnet']), ...podcidr]
  return all.flatMap((subnet) => {
    const cidr = parseCidr(String(subnet))
    return cidr === undefined ? [] : [formatCidr(networkOf(cidr))]
  })
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
const tuningArgs = ['sysctl', 'promisc', 'mtu', 'allmulti', 'txQLen'].map((key) => `args.cni.${key}`)

const bridgeKeys = [
  ...['bridge', 'hairpinMode', 'forceAddress', 'promiscMode', 'portIsolation', 'vlan', 'vlanTrunk'],
  ...['preserveDefaultVlan', 'macspoofchk'],
]
const interfaceKeys = [
  ...['podcidr', 'ipam', 'dns', 'isGateway', 'isDefaultGateway', 'mtu', 'enabledad', 'disableContainerInterface'],
]
const featureKeys = [
  ...['portmap', 'firewall', 'bandwidth', 'tuning', 'sbr', 'ipMasq', 'nonMasqueradeCIDRs'],
  ...['removeWhenEmpty', 'allowOverlap'],
]
/** Keys of modes with an end of the interface on the host. */
const hostEndKeys = [...bridgeKeys, 'isGateway', 'ipMasq', 'nonMasqueradeCIDRs', 'portmap', 'firewall']
const masterKeys = ['master', 'macvlanMode']
const deviceKeys = ['device', 'hwaddr', 'kernelpath', 'pciBusID']
const foreignKeys = [...masterKeys, ...deviceKeys]

/** The keys that a mode does not read. */
const unreadKeys: Readonly<Record<Mode, readonly string[]>> = {
  bridge: foreignKeys,
  ptp: [...bridgeKeys, ...foreignKeys],
  macvlan: [...hostEndKeys, ...deviceKeys],
  'host-device': [...hostEndKeys, ...masterKeys],
  loopback: [...bridgeKeys, ...foreignKeys, ...interfaceKeys, ...featureKeys],
  chained: [...bridgeKeys, ...foreignKeys, ...interfaceKeys],
}

/** Findings about one plugin that runs in `mode`. A key that asks for nothing (false, 0, "") is ignored. */
export function keysWithoutEffect({ conf, steps }: PluginEntry, mode: Mode): readonly Found[] {
  const reasons = new Map(Object.entries(everywhere))
  for (const key of unreadKeys[mode]) reasons.set(key, `with mode ${mode} it is not read`)
  if (!isObject(lookUp(conf, 'tuning')) && !unreadKeys[mode].includes('tuning')) {
    for (const key of tuningArgs) {
      reasons.set(key, 'args.cni changes sysctls and link settings only beside "tuning": {}')
    }
  }
  const found: Found[] = []
  for (const [key, reason] of reasons) {
    const path = key.split('.')
    const value = path.reduce<unknown>((at, step) => (isObject(at) ? at[step] : undefined), conf)
    if ([undefined, null, false, 0, '', 'off'].includes(value as never)) continue
    found.push({ id: 'no-effect', message: `${key} has no effect: ${reason}`, steps: [...steps, ...path] })
  }
  return found
}
