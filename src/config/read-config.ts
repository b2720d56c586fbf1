// SPDX-License-Identifier: Apache-2.0
// stdin and the call -> NetworkConf: every key checked, every default filled in, nothing touched.

import { familyOf, linkNameProblem, unsafeNameProblem } from '../cni/addresses.ts'
import { type Call, ownType, requireGoodArgs } from '../cni/call.ts'
import { type ConfigHead, isPluginType, readHead } from '../cni/config-head.ts'
import { configError, notA, quote, unsupported } from '../cni/errors.ts'
import { readAs, readPrefixes, withKnownKeys } from '../cni/fields.ts'
import { asObject, defined, type JsonObject, lookUp } from '../cni/json.ts'
import { atLeast, noAddress, type Result, readPrevResult } from '../cni/results.ts'
import { readBandwidth } from '../features/bandwidth.ts'
import { readFirewall } from '../features/firewall.ts'
import { readPortMappings, readPortmap } from '../features/host-ports.ts'
import { checkMasqueradeBackend } from '../features/masquerade.ts'
import { readSbr } from '../features/sbr.ts'
import { readMac, readTuning, refuseDisabledIpv6, withoutUnreadArgs } from '../features/tuning.ts'
import { readTrunk } from '../features/vlan.ts'
import { capacity } from '../ipam/choose.ts'
import { defaultDataDir, readIpam, readTopDns } from './ipam.ts'
import type {
  BridgeKeys,
  DelConf,
  DeviceQuery,
  HostDeviceConf,
  IpamConf,
  IpamRoleConf,
  MacvlanConf,
  Mode,
  NetworkConf,
  OwnConf,
} from './network-conf.ts'
import { type RawConfig, schemas } from './schema.ts'

/** RFC 8200, section 5: the kernel takes IPv6 off a link with less (net/ipv6/addrconf.c). */
const leastIpv6Mtu = 1280

interface Source {
  readonly head: ConfigHead
  readonly call: Call
  readonly stdin: string
}

/**
 * The configuration of an ADD, CHECK, STATUS or GC. Throws CniError: 6 not JSON, 1 version, 7 a value, 2 a value that
 * trestle cannot honour, 4 CNI_ARGS. A `type` that is none of the executable's names: its plugin delegates to us.
 */
export function readConfig(stdin: string, call: Call): NetworkConf {
  const source = { head: readHead(stdin, call), call, stdin }
  return call.ownTypes.includes(source.head.type) ? readOwnRole(source) : readIpamRole(source)
}

function readOwnRole(source: Source): OwnConf {
  const { head, call } = source
  const isLoopback = modeKey(head) === 'loopback'
  // The reference loopback plugin reads no CNI_ARGS.
  if (!isLoopback) requireGoodArgs(call)
  const known = asObject(withKnownKeys(head.root, schemas.own.keys))
  const raw = readAs(schemas.own.schema, withoutUnreadArgs(known))
  const prevResult = readPrevious(source)
  const usual = call.verb === 'ADD' && prevResult !== undefined ? 'chained' : 'bridge'
  const mode = isLoopback ? 'loopback' : (raw.mode ?? usual)
  if (mode === 'chained' && call.verb === 'ADD' && prevResult === undefined) {
    const hint = 'put it after the plugin that makes the interface'
    throw configError(['prevResult'], 'This plugin must be called as chained plugin', { id: 'chained-first', hint })
  }
  const conf = confOfMode(mode, raw, source, {
    ...commonParts(raw, source),
    ...featureParts(raw, source, mode),
    ipam: readOwnIpam(raw, mode, source),
    ...defined({ prevResult }),
  })
  if (call.verb === 'ADD' || call.verb === 'STATUS') refuseContradictions(conf, raw, call)
  return conf
}

/** `mode`, or `loopback` by the executable's name: containerd sends that plugin `type` alone (go-cni). */
function modeKey({ root, type }: ConfigHead): unknown {
  return lookUp(root, 'mode') ?? (type === 'loopback' ? 'loopback' : undefined)
}

function commonParts(
  raw: Pick<RawConfig, 'cni.dev/attachments' | 'cni.dev/valid-attachments'>,
  { head, call, stdin }: Source,
) {
  const { podNamespace: namespace, podName: name, podUid: uid } = call.args
  const pod = namespace === undefined || name === undefined ? undefined : { namespace, name, ...defined({ uid }) }
  const { root, ...named } = head
  return { ...named, stdin, ...defined({ pod, validAttachments: readAttachments(raw, root) }) }
}

function readAttachments(
  raw: Pick<RawConfig, 'cni.dev/attachments' | 'cni.dev/valid-attachments'>,
  root: JsonObject,
): NetworkConf['validAttachments'] {
  const names = ['cni.dev/valid-attachments', 'cni.dev/attachments'] as const
  const key = names.find((name) => lookUp(root, name) !== undefined)
  if (key === undefined) return undefined
  if (lookUp(root, key) === null) return null
  return raw[key]?.map(({ containerID, ifname }, index) => {
    if (containerID && ifname) return { containerId: containerID, ifName: ifname }
    const hint = 'use {"containerID": "x", "ifname": "eth0"}'
    throw configError([key, index], 'containerID or ifname is missing', { id: 'attachment-incomplete', hint })
  })
}

/** ADD and CHECK consult it; GC and STATUS get none, and CHECK of loopback needs none. */
function readPrevious({ head, call }: Source): Result | undefined {
  if (call.verb !== 'ADD' && call.verb !== 'CHECK') return undefined
  const value = lookUp(head.root, 'prevResult') ?? undefined
  if (value !== undefined) return readPrevResult(value, head.cniVersion)
  if (call.verb === 'ADD' || modeKey(head) === 'loopback') return undefined
  const hint = 'CHECK compares with the result of ADD: send that'
  throw configError(['prevResult'], 'Required prevResult missing', { id: 'prev-result-missing', hint })
}

/** What acts on an interface whoever made it. */
function featureParts(raw: RawConfig, { head, call, stdin }: Source, mode: Mode) {
  checkMasqueradeBackend(raw.ipMasqBackend)
  const capabilities = Object.entries(asObject(lookUp(head.root, 'capabilities')))
  return {
    ipMasq: raw.ipMasq ?? (raw.podcidr !== undefined && mode !== 'chained'),
    nonMasqueradeCidrs: readPrefixes(raw.nonMasqueradeCIDRs ?? [], ['nonMasqueradeCIDRs']),
    mtu: raw.mtu === 0 ? 'auto' : (raw.mtu ?? 'auto'),
    removeWhenEmpty: raw.removeWhenEmpty ?? false,
    allowOverlap: raw.allowOverlap ?? false,
    portMappings: readPortMappings(raw.runtimeConfig?.portMappings),
    portmap: readPortmap(raw.portmap),
    capabilities: capabilities.filter(([, isOn]) => isOn === true).map(([name]) => name),
    ...defined({
      dns: readTopDns(raw),
      mac: readMac(raw, call, mode === 'chained'),
      firewall: readFirewall(raw.firewall),
      bandwidth: readBandwidth(raw),
      tuning: readTuning(raw, call, stdin),
      sbr: readSbr(raw.sbr),
    }),
  } as const
}

/** The interface of `loopback` and `chained` is not ours to give addresses to. Throws CniError 7. */
function readOwnIpam(raw: RawConfig, mode: Mode, { head, call }: Source): IpamConf {
  if (mode === 'loopback' || mode === 'chained') return { kind: 'none' }
  const ipam = readIpam(raw, { call, cniVersion: head.cniVersion })
  requireStaticAddress(ipam, call)
  if (mode === 'ptp') requireAddresses(ipam, 'mode ptp routes by address')
  return ipam
}

function requireAddresses(ipam: IpamConf, why: string): void {
  if (ipam.kind !== 'none') return
  throw configError(['ipam'], `missing: ${why}`, { id: 'ipam-missing', hint: 'use podcidr, or ipam with a type' })
}

function requireStaticAddress(ipam: IpamConf, call: Call): void {
  if (ipam.kind !== 'static' || ipam.addresses.length > 0 || call.verb !== 'ADD') return
  const hint = 'use [{"address": "10.1.2.3/24"}], or the capability ips'
  throw configError(['ipam', 'addresses'], 'no address given', { id: 'static-address-missing', hint })
}

type Shared = Omit<Extract<OwnConf, { mode: 'loopback' }>, 'role' | 'mode'>

/** Every mode checks the keys of all modes: a wrong value is wrong wherever it stands. */
function confOfMode(mode: Mode, raw: RawConfig, { call }: Source, shared: Shared): OwnConf {
  const bridge = readBridge(raw, shared.ipam)
  const isDefaultGateway = raw.isDefaultGateway ?? (raw.podcidr !== undefined && raw.isGateway !== false)
  const making = {
    role: 'main',
    isGateway: isDefaultGateway || raw.isGateway === true,
    isDefaultGateway,
    enabledad: raw.enabledad ?? false,
    disableContainerInterface: raw.disableContainerInterface ?? false,
  } as const
  if (making.disableContainerInterface && shared.ipam.kind !== 'none') {
    const message = 'cannot use IPAM when DisableContainerInterface flag is set'
    const more = { id: 'ipam-without-interface', hint: 'use it without ipam and podcidr' }
    throw configError(['disableContainerInterface'], message, more)
  }
  switch (mode) {
    case 'bridge':
      return { ...shared, ...making, mode, bridge }
    case 'ptp':
      return { ...shared, ...making, mode }
    case 'macvlan':
      return checkMacvlan({ ...shared, ...making, mode, ...readMaster(raw) })
    case 'host-device':
      return requireNoHostEnd({ ...shared, ...making, mode, ...readDevice(raw, call) })
    case 'loopback':
      return { ...shared, role: 'main', mode }
    case 'chained':
      return { ...shared, role: 'chained', mode }
    default:
      return mode satisfies never
  }
}

function readBridge(raw: RawConfig, ipam: IpamConf): BridgeKeys {
  const name = raw.bridge ?? 'cni0'
  // iptables and nft read these as patterns.
  const isPattern = /^!|[+*]$/.test(name)
  const pattern = isPattern ? 'interface name starts with ! or ends with + or *' : undefined
  const problem = linkNameProblem(name) ?? unsafeNameProblem(name) ?? pattern
  if (problem !== undefined) {
    const hint = 'use 1 to 15 bytes: letters, digits, _, . and -, like "cni0"'
    throw notA(['bridge'], name, { id: 'bridge-name', what: `a bridge name: ${problem}`, hint })
  }
  if (raw.hairpinMode === true && raw.promiscMode === true) {
    const message = 'cannot set hairpin mode and promiscuous mode at the same time'
    const hint = 'use one of hairpinMode and promiscMode; both reflect frames to their port'
    throw configError(['hairpinMode'], message, { id: 'hairpin-and-promiscuous', hint })
  }
  const vlanTrunk = readTrunk(raw.vlanTrunk)
  // Only `podcidr` turns hairpin on by itself, and not where it cannot work or has no use.
  const isPlain = (raw.vlan ?? 0) === 0 && vlanTrunk === undefined && raw.promiscMode !== true
  return {
    name,
    forceAddress: raw.forceAddress ?? false,
    hairpinMode: raw.hairpinMode ?? (raw.podcidr !== undefined && ipam.kind !== 'none' && isPlain),
    promiscMode: raw.promiscMode ?? false,
    vlan: raw.vlan ?? 0,
    ...defined({ vlanTrunk }),
    preserveDefaultVlan: raw.preserveDefaultVlan ?? false,
    macspoofchk: raw.macspoofchk ?? false,
    portIsolation: raw.portIsolation ?? false,
  }
}

function readMaster({ master, macvlanMode, linkInContainer }: RawConfig): Pick<MacvlanConf, 'master' | 'macvlanMode'> {
  if (linkInContainer)
    throw unsupported(['linkInContainer'], true, 'leave it out: the master is an interface of the node')
  const mode = { macvlanMode: macvlanMode ?? 'bridge' } as const
  if (master === undefined || master === '') return mode
  const problem = linkNameProblem(master) ?? unsafeNameProblem(master)
  if (problem === undefined) return { ...mode, master }
  const hint = 'use the name of an interface of the node, or leave it out for the one with the default route'
  throw notA(['master'], master, { id: 'master-unusable', what: `an interface: ${problem}`, hint })
}

/** Throws CniError 7 for a feature that needs an end on the host. */
function requireNoHostEnd<Conf extends MacvlanConf | HostDeviceConf>(conf: Conf): Conf {
  const { bandwidth, firewall, portMappings, mode } = conf
  const hint = 'use mode bridge or ptp, or leave it out'
  const refused = (path: string[], id: string) =>
    configError(path, `mode ${mode} has no end on the host, which this needs`, { id, hint })
  if (bandwidth !== undefined) throw refused(['bandwidth'], 'bandwidth-without-veth')
  if (firewall?.ingressPolicy !== undefined) throw refused(['firewall', 'ingressPolicy'], 'policy-without-veth')
  if (portMappings.length > 0) throw refused(['runtimeConfig', 'portMappings'], 'ports-without-route')
  return conf
}

/** Throws CniError 2 besides for a MAC that would become the master's. */
function checkMacvlan(conf: MacvlanConf): MacvlanConf {
  const asked = conf.tuning?.mac ?? conf.mac
  if (conf.macvlanMode === 'passthru' && asked !== undefined)
    throw unsupported(['mac'], asked, 'with "macvlanMode": "passthru" the pod has the MAC of the master: ask for none')
  return requireNoHostEnd(conf)
}

interface DeviceKey {
  readonly what: string
  readonly hint: string
  readonly read: (value: string) => string | undefined
}

/** The keys that name a device, each with the form of its value: paths below /sys are made of them. */
const deviceKeys: Readonly<Record<Exclude<DeviceQuery['key'], 'master'>, DeviceKey>> = {
  device: {
    what: 'an interface',
    hint: 'use the name of an interface of the node, like "eth1"',
    read: (name) => ((linkNameProblem(name) ?? unsafeNameProblem(name)) === undefined ? name : undefined),
  },
  hwaddr: { what: 'a MAC address', hint: 'use one like "c2:11:22:33:44:55"', read: readHardwareAddress },
  kernelpath: {
    what: 'a path below /sys/devices',
    hint: 'use one like "/sys/devices/pci0000:00/0000:00:1f.6", without . and ..',
    read: (path) => (/^\/sys\/devices(?:\/(?!\.{1,2}(?:\/|$))[\w:.,@+-]+)+$/.test(path) ? path : undefined),
  },
  pciBusID: {
    what: 'a PCI address',
    hint: 'use one like "0000:00:1f.6": lspci -D shows them',
    read: (id) => (/^[\da-f]{4,8}:[\da-f]{2}:[\da-f]{2}\.[0-7]$/i.test(id) ? id.toLowerCase() : undefined),
  },
  deviceID: {
    what: 'a PCI address, or a name on the auxiliary bus',
    hint: 'use what the device plugin of the node allocates, like "0000:00:1f.6"',
    read: (id) => (/^[\w:.-]+$/.test(id) && !/^\.+$/.test(id) ? id : undefined),
  },
}

/** The forms of Go's net.ParseMAC, in the kernel's; InfiniBand has 20 bytes. */
function readHardwareAddress(text: string): string | undefined {
  const isForm = /^[\da-f]{2}(?:([:-])[\da-f]{2})(?:\1[\da-f]{2})+$|^[\da-f]{4}(?:\.[\da-f]{4})+$/i.test(text)
  const bytes = text.toLowerCase().match(/[\da-f]{2}/g) ?? []
  return isForm && [6, 8, 20].includes(bytes.length) ? bytes.join(':') : undefined
}

/** One key names the device. The runtime's takes the place of `pciBusID`, which Multus writes beside it. */
function readDevice(raw: RawConfig, { verb }: Call): Pick<HostDeviceConf, 'device'> {
  const values = { ...raw, deviceID: raw.runtimeConfig?.deviceID }
  const given = (Object.keys(deviceKeys) as (keyof typeof deviceKeys)[]).filter((key) => values[key])
  const [key, second] = given.filter((each) => each !== 'pciBusID' || !given.includes('deviceID'))
  if (key === undefined && verb !== 'ADD') return {}
  if (key === undefined) {
    const hint = 'use "device", "hwaddr", "kernelpath" or "pciBusID", or the capability deviceID'
    throw configError(['device'], 'no device is named', { id: 'device-keys', hint })
  }
  if (second !== undefined)
    throw configError([key], `names a device, and so does ${second}`, { id: 'device-keys', hint: 'use one of them' })
  const { what, hint, read } = deviceKeys[key]
  const value = read(values[key] ?? '')
  const path = key === 'deviceID' ? ['runtimeConfig', key] : [key]
  if (value === undefined) throw notA(path, values[key], { id: 'device-form', what, hint })
  return { device: { key, value } }
}

/** Settings that cannot take effect together, for ADD, STATUS and `lint`. Throws CniError 7. */
function refuseContradictions(conf: OwnConf, raw: RawConfig, { verb, ifName }: Call): void {
  const { ipam, mode, mtu, tuning, cniVersion } = conf
  const hasPrevious = mode === 'chained' && (conf.prevResult?.ips.length ?? 0) > 0
  if (verb === 'ADD' && !atLeast(cniVersion, '0.3.0') && mode !== 'loopback' && ipam.kind === 'none' && !hasPrevious)
    throw noAddress(cniVersion)
  if (ipam.kind === 'none' && mode !== 'chained' && mode !== 'loopback') {
    const key = (['isDefaultGateway', 'isGateway', 'ipMasq'] as const).find((each) => raw[each] === true)
    const unread = key ?? (conf.nonMasqueradeCidrs.length > 0 ? 'nonMasqueradeCIDRs' : undefined)
    const hint = `use podcidr, or ipam with a type; for a network on layer 2 leave ${unread} out`
    if (unread !== undefined)
      throw configError([unread], 'needs addresses, and there is no ipam', { id: 'key-needs-addresses', hint })
  }
  for (const [at, set] of (ipam.kind === 'pool' ? ipam.rangeSets : []).entries()) {
    if (ipam.kind !== 'pool' || capacity(set, ipam.exclude) > 0n) continue
    const hint = 'use a larger subnet, other bounds (rangeStart, rangeEnd), or exclude less'
    const message = `range set ${at} has no address for a pod: its gateway and excluded addresses are all that it holds`
    const more = { id: 'range-without-addresses', hint }
    throw configError(raw.podcidr === undefined ? ['ipam'] : ['podcidr'], message, more)
  }
  if (!hasIpv6(ipam)) return
  if (tuning !== undefined) refuseDisabledIpv6(tuning, ifName, raw.podcidr === undefined ? 'ipam' : 'podcidr')
  for (const [path, value] of [[['mtu'], mtu] as const, [['tuning', 'mtu'], tuning?.mtu] as const]) {
    if (typeof value !== 'number' || value >= leastIpv6Mtu) continue
    const hint = `use ${leastIpv6Mtu} or more, or no IPv6 range`
    throw configError(path, `${value} is too small for IPv6`, { id: 'mtu-below-ipv6', hint })
  }
}

/** Whether pods are known to get IPv6 addresses; a delegated plugin's are not known. */
export function hasIpv6(ipam: IpamConf): boolean {
  if (ipam.kind === 'pool') return ipam.rangeSets.some((ranges) => ranges.some(({ subnet }) => familyOf(subnet) === 6))
  return ipam.kind === 'static' && ipam.addresses.some(({ address }) => familyOf(address) === 6)
}

/** The configuration of another plugin: its own keys are not read. */
function readIpamRole(source: Source): IpamRoleConf {
  const { head, call } = source
  requireGoodArgs(call)
  const { schema, keys } = schemas.ipamRole
  const raw = readAs(schema, withKnownKeys(head.root, keys))
  const ipam = readIpam(raw, { call, cniVersion: head.cniVersion })
  requireStaticAddress(ipam, call)
  requireAddresses(ipam, `${head.type} delegates to us`)
  if (ipam.kind === 'delegated') {
    const hint = `use "${ownType}", or set "type" to "${ownType}"`
    throw configError(['ipam', 'type'], `${quote(ipam.type)} is not ours`, { id: 'ipam-type-foreign', hint })
  }
  return { ...commonParts(raw, source), ipam, role: 'ipam', mode: 'ipam' }
}

/** The configuration of a DEL: whatever is wrong but JSON, name and version counts as absent. Throws CniError 6, 7, 1. */
export function readDelConfig(stdin: string, ownTypes: readonly string[] = [ownType]): DelConf {
  const head = readHead(stdin, { verb: 'DEL', ownTypes })
  const { root, name, cniVersion, type } = head
  const isOwn = ownTypes.includes(type)
  const ipam = asObject(lookUp(root, 'ipam'))
  const [ipamType, dataDir] = [lookUp(ipam, 'type'), lookUp(ipam, 'dataDir')]
  const inProcess: readonly unknown[] = [...ownTypes, 'host-local', 'static']
  const mode = modeKey(head)
  const role = !isOwn ? 'ipam' : mode === 'chained' ? 'chained' : 'main'
  return {
    cniVersion,
    name,
    role,
    isLoopback: isOwn && mode === 'loopback',
    ...(isOwn && (mode === 'macvlan' || mode === 'host-device') ? { inPod: { mode, ...deviceName(root) } } : {}),
    ...(role === 'main' && isPluginType(ipamType) && !inProcess.includes(ipamType) ? { delegatedIpam: ipamType } : {}),
    dataDir: typeof dataDir === 'string' && dataDir.startsWith('/') ? dataDir : defaultDataDir,
    stdin,
  }
}

function deviceName(root: JsonObject): { device?: string } {
  const device = deviceKeys.device.read(String(lookUp(root, 'device') ?? ''))
  return defined({ device })
}
