// SPDX-License-Identifier: Apache-2.0
// Valid configurations that are probably a mistake: gateways out of reach, capabilities that do not fit.

import {
  firstOf,
  formatAddress,
  formatCidr,
  includes,
  lastOf,
  networkOf,
  overlaps,
  parseAddress,
  parseCidr,
} from '../../cni/addresses.ts'
import { ownType } from '../../cni/call.ts'
import { withKnownKeys } from '../../cni/fields.ts'
import { isObject, lookUp } from '../../cni/json.ts'
import { nearestWord } from '../nearest-word.ts'
import { type Found, keyPathOf, type Step, shown } from './finding.ts'
import type { PluginEntry } from './list.ts'
import { type NetworkHead, readOwn } from './own-plugin.ts'
import { upstreamShape } from './upstream.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * Capabilities of CONVENTIONS.md of the CNI project, the pod's annotations, which containerd and CRI-O send by a name
 * of their own, and the device file, which Multus sends (pkg/types/conf.go; ovs-cni needs it for vDPA).
 */
const conventional = [
  ...['portMappings', 'ipRanges', 'bandwidth', 'dns', 'ips', 'mac', 'infinibandGUID', 'deviceID', 'aliases'],
  ...['cgroupPath', 'io.kubernetes.cri.pod-annotations', 'CNIDeviceInfoFile'],
]

export function ownSemantics(entry: PluginEntry): readonly Found[] {
  const at = (found: Found): Found => ({ ...found, steps: [...entry.steps, ...(found.steps ?? [])] })
  return [...gateways(entry.conf), ...portmapKey(entry.conf)].map(at)
}

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
function gateways(conf: Fields): readonly Found[] {
  return isObject(conf['ipam']) ? placesIn(conf['ipam']).flatMap(gateway) : []
}

function gateway({ value, network, steps }: Place): readonly Found[] {
  const given = value['gateway']
  const [cidr, address] = [parseCidr(network), typeof given === 'string' ? parseAddress(given) : undefined]
  if (cidr === undefined || address === undefined || includes(cidr, address)) return []
  const at = [...steps.slice(0, -1), 'gateway']
  const message = `${keyPathOf(at)}: ${given} is not in ${network}`
  return [{ id: 'gateway-outside-subnet', message, steps: at, isAboutValue: true }]
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

export function overlapOf(ours: readonly string[], theirs: readonly string[]): readonly [string, string] | undefined {
  const pairs = ours.flatMap((a) => theirs.map((b) => [a, b] as const))
  return pairs.find(([a, b]) => {
    const [one, other] = [parseCidr(a), parseCidr(b)]
    return one !== undefined && other !== undefined && overlaps(one, other)
  })
}

// Addresses of the upstream plugins: ranges of host-local and addresses of static as these plugins read them, and valid
// but unlikely values.

/** A range or an address with its place. `network`: its subnet. */
interface Place {
  readonly value: Fields
  readonly network: string
  readonly steps: readonly Step[]
}

/** Findings about the addresses of a plugin whose `ipam` is host-local or static. */
export function ipamProblems(written: PluginEntry, type: string, head: NetworkHead): readonly Found[] {
  const given = lookUp(written.conf, 'ipam')
  const kind = isObject(given) ? lookUp(given, 'type') : undefined
  if (kind !== 'host-local' && kind !== 'static') return []
  // Go matches keys without case.
  const conf = withKnownKeys(written.conf, upstreamShape(type, kind)) as Fields
  const entry: PluginEntry = { ...written, conf }
  const ipam = conf['ipam'] as Fields
  const read = readAsOurs(entry, ipam, head)
  if (read.length > 0) return read
  const at = (found: Found): Found => ({ ...found, steps: [...entry.steps, ...(found.steps ?? [])] })
  const places = placesIn(ipam)
  const odd = [
    ...places.flatMap(gateway),
    ...(kind === 'static' ? noAddresses(entry.conf, ipam) : []),
    ...places.flatMap(edges),
    ...places.flatMap(publicRange),
    ...routeProblems(entry.conf, ipam, type),
  ]
  return odd.map(at)
}

/** trestle's host-local and static refuse the same types, ranges and overlaps in the same words. */
function readAsOurs({ conf, steps }: PluginEntry, ipam: Fields, head: NetworkHead): readonly Found[] {
  const isEmptyStatic = lookUp(ipam, 'type') === 'static' && lookUp(ipam, 'addresses') === undefined
  if (isEmptyStatic) return []
  const entry: PluginEntry = {
    conf: { type: ownType, ipam, capabilities: conf['capabilities'] ?? {} },
    steps,
    index: 0,
  }
  const found = readOwn(entry, head).found
  return found.filter((each) => each.steps?.[steps.length] === 'ipam').map(asUpstream)
}

/** The cure for a pool without ranges, for host-local: podcidr is a key of trestle. */
function asUpstream(found: Found): Found {
  if (found.isAbsence !== true || found.id !== 'range-invalid') return found
  const ways = '"ranges": [ [ { "subnet": "10.1.2.0/24" } ] ] in ipam, or "capabilities": {"ipRanges": true}'
  const cure = `add ${ways}; where an agent writes the subnet of the node here (kube-router does), see why it did not`
  return { ...found, cause: 'host-local has nothing to allocate from: ADD is refused (code 7)', cure }
}

/** The ranges and addresses of host-local or static, with keys as these write them. */
export function placesIn(ipam: Fields): readonly Place[] {
  const sets = Array.isArray(ipam['ranges']) ? ipam['ranges'] : []
  const ranges = sets.flatMap((set: unknown, i) =>
    (Array.isArray(set) ? set : []).map((range: unknown, j) => placeOf(range, 'subnet', ['ipam', 'ranges', i, j])),
  )
  const addresses = Array.isArray(ipam['addresses']) ? ipam['addresses'] : []
  const fixed = addresses.map((each: unknown, at) => placeOf(each, 'address', ['ipam', 'addresses', at]))
  return [placeOf(ipam, 'subnet', ['ipam']), ...ranges, ...fixed].flat()
}

function placeOf(value: unknown, key: string, steps: readonly Step[]): readonly Place[] {
  const network = isObject(value) ? value[key] : undefined
  return isObject(value) && typeof network === 'string' ? [{ value, network, steps: [...steps, key] }] : []
}

function noAddresses(conf: Fields, { addresses }: Fields): readonly Found[] {
  const capabilities = isObject(conf['capabilities']) ? conf['capabilities'] : {}
  const isGiven = Array.isArray(addresses) && addresses.length > 0
  if (isGiven || capabilities['ips'] === true || conf['args'] !== undefined) return []
  const message = 'static has no addresses, and the capability ips is not declared: the pod gets none'
  return [{ id: 'addresses-missing', message, steps: ['ipam'], isAbsence: true }]
}

/** Ranges that give the network or broadcast address to a pod. */
function edges({ value, network, steps }: Place): readonly Found[] {
  const cidr = parseCidr(network)
  if (cidr === undefined || cidr.family === 6 || cidr.prefixLength > 30) return []
  const [first, last] = [formatAddress(firstOf(cidr)), formatAddress(lastOf(cidr))]
  return ['rangeStart', 'rangeEnd', 'address'].flatMap((key): readonly Found[] => {
    const end = value[key]
    const address = key === 'address' && typeof end === 'string' ? end.split('/')[0] : end
    if (address !== first && address !== last) return []
    const at = [...steps.slice(0, -1), key]
    const subnet = formatCidr(networkOf(cidr))
    const which = `${address === first ? 'network' : 'broadcast'} address of ${subnet}`
    return [
      { id: 'range-edge', message: `${keyPathOf(at)}: ${address} is the ${which}`, steps: at, isAboutValue: true },
    ]
  })
}

/**
 * Private, shared, link-local, loopback and documentation ranges: RFC 1918, 6598, 3927, 5737, 2544, 4193, 4291, 3849.
 */
const notPublic = [
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '169.254.0.0/16', '127.0.0.0/8'],
  ...['192.0.0.0/24', '192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '198.18.0.0/15', '240.0.0.0/4'],
  ...['fc00::/7', 'fe80::/10', '2001:db8::/32', '100::/64'],
].flatMap((each) => parseCidr(each) ?? [])

function publicRange({ network, steps }: Place): readonly Found[] {
  const cidr = parseCidr(network)
  if (cidr === undefined || cidr.family === 6 || notPublic.some((range) => overlaps(range, cidr))) return []
  const message = `${keyPathOf(steps)}: ${network} are addresses of the Internet: pods cannot reach their owners`
  return [{ id: 'range-public', message, steps, isAboutValue: true }]
}

const defaults = ['0.0.0.0/0', '::/0']

/** A default route without a working gateway, and no route at all although ipMasq implies traffic to the outside. */
function routeProblems(conf: Fields, ipam: Fields, type: string): readonly Found[] {
  const routes = Array.isArray(ipam['routes']) ? ipam['routes'].filter(isObject) : []
  const toAll = routes.filter(({ dst }) => defaults.includes(String(dst)))
  const isDefault = conf['isDefaultGateway'] === true
  if (type !== 'bridge' && type !== 'ptp') return []
  if (conf['ipMasq'] === true && !isDefault && routes.length === 0) {
    const message = 'ipMasq is set, and pods have no default route'
    return [{ id: 'no-default-route', message, steps: ['ipMasq'] }]
  }
  // The gateway that host-local assumes; static assumes none, and the route is to the link.
  if (ipam['type'] !== 'host-local') return []
  const isGateway = type === 'ptp' || isDefault || conf['isGateway'] === true
  const lost = toAll.filter(({ gw }) => gw === undefined)
  if (isGateway || lost.length === 0 || placesIn(ipam).some(({ value }) => value['gateway'] !== undefined)) return []
  const [place] = placesIn(ipam)
  const cidr = parseCidr(place?.network ?? '')
  const { family, value } = cidr === undefined ? { family: 4 as const, value: 0n } : firstOf(cidr)
  const first = cidr === undefined ? 'the first address of the range' : formatAddress({ family, value: value + 1n })
  const message = `the default route goes to ${first}, which does not exist: the bridge is no gateway`
  return [{ id: 'gateway-of-nobody', message, steps: ['ipam', 'routes'] }]
}
