// SPDX-License-Identifier: Apache-2.0
// stdin and the call -> NetConf: every key checked, every default filled in, nothing touched.

import { familyOf, linkNameProblem, unsafeNameProblem } from '../cni/address.ts'
import { type ConfigHead, isPluginType, type JsonObject, readHead } from '../cni/config-head.ts'
import { configError, notA, quote, unsupported } from '../cni/error.ts'
import { readAs, readCidrs } from '../cni/fields.ts'
import { checkArgs, type Invocation, ownType } from '../cni/invocation.ts'
import { asObject, defined, lookUp, withKnownKeys } from '../cni/json.ts'
import { atLeast, type Result } from '../cni/result.ts'
import { noAddress, readPrevResult } from '../cni/result-shapes.ts'
import { readBandwidth } from '../features/bandwidth.ts'
import { readFirewall } from '../features/firewall.ts'
import { readPortMappings, readPortmap } from '../features/host-ports.ts'
import { checkMasqBackend } from '../features/masquerade.ts'
import { readSbr } from '../features/sbr.ts'
import { readPodMac, readTuning, withoutUnreadArgs } from '../features/tuning.ts'
import type { Mode, Role } from '../model/attachment.ts'
import { readBridge, readInterface, usualMode } from './bridge.ts'
import { readIpam, readTopDns } from './ipam.ts'
import type {
  BridgeConf,
  DelConf,
  DeviceQuery,
  FeatureConf,
  HostDeviceNetConf,
  IpamConf,
  IpamNetConf,
  MacvlanConf,
  MacvlanNetConf,
  NetConf,
  OwnNetConf,
} from './net-conf.ts'
import { configKeys, configSchema, ipamRoleKeys, ipamRoleSchema, type RawConfig } from './schema.ts'

const attachmentKeys = ['cni.dev/valid-attachments', 'cni.dev/attachments'] as const

interface Call {
  readonly head: ConfigHead
  readonly invocation: Invocation
  readonly stdin: string
}

function readAttachments(raw: RawConfig, root: JsonObject): NetConf['validAttachments'] {
  const key = attachmentKeys.find((name) => lookUp(root, name) !== undefined)
  if (key === undefined) return undefined
  if (lookUp(root, key) === null) return null
  return raw[key]?.map(({ containerID, ifname }, index) => {
    if (containerID && ifname) return { containerId: containerID, ifName: ifname }
    const hint = 'use {"containerID": "x", "ifname": "eth0"}'
    throw configError([key, index], 'containerID or ifname is missing', { id: 'attachment-incomplete', hint })
  })
}

/** `mode`, or `loopback` by the executable's name: containerd sends that plugin `type` alone (go-cni). */
function modeIn(root: JsonObject, type: string): unknown {
  return lookUp(root, 'mode') ?? (type === 'loopback' ? type : undefined)
}

/** ADD and CHECK consult it; GC and STATUS get none (CNI spec 1.1.0, section 4). */
function readPrevious({ head, invocation }: Call): Result | undefined {
  const value = lookUp(head.root, 'prevResult') ?? undefined
  const isOptional = invocation.verb === 'ADD' || modeIn(head.root, head.type) === 'loopback'
  if (isOptional && value === undefined) return undefined
  if (invocation.verb !== 'ADD' && invocation.verb !== 'CHECK') return undefined
  if (value !== undefined) return readPrevResult(value, head.cniVersion)
  const hint = 'CHECK compares with the result of ADD: send that'
  throw configError(['prevResult'], 'Required prevResult missing', { id: 'prev-result-missing', hint })
}

function podOf({ args }: Invocation): NetConf['pod'] {
  const { podNamespace: namespace, podName: name, podUid: uid } = args
  return namespace === undefined || name === undefined ? undefined : { namespace, name, ...defined({ uid }) }
}

function commonConf(raw: RawConfig, call: Call, ipam: IpamConf) {
  const { head, invocation, stdin } = call
  return {
    cniVersion: head.cniVersion,
    name: head.name,
    type: head.type,
    ipam,
    stdin,
    ...defined({
      validAttachments: readAttachments(raw, head.root),
      pod: podOf(invocation),
    }),
  }
}

/** `needsThem` says why there must be addresses; undefined: layer 2 will do. */
function checkHasAddresses(ipam: IpamConf, needsThem: string | undefined): void {
  if (needsThem === undefined || ipam.kind !== 'none') return
  const hint = 'use podcidr, or ipam with a type'
  throw configError(['ipam'], `missing: ${needsThem}`, { id: 'ipam-missing', hint })
}

function checkStatic(ipam: IpamConf, { invocation }: Call): void {
  if (ipam.kind !== 'static' || ipam.addresses.length > 0 || invocation.verb !== 'ADD') return
  const hint = 'use [{"address": "10.1.2.3/24"}], or the capability ips'
  throw configError(['ipam', 'addresses'], 'no address given', { id: 'static-address-missing', hint })
}

/** The configuration of another plugin: its own keys are none of our business. */
function readIpamRole(call: Call): IpamNetConf {
  checkArgs(call.invocation)
  const raw: RawConfig = readAs(ipamRoleSchema, withKnownKeys(call.head.root, ipamRoleKeys))
  const ipam = readIpam(raw, { invocation: call.invocation, cniVersion: call.head.cniVersion })
  checkStatic(ipam, call)
  checkHasAddresses(ipam, `${call.head.type} delegates to us`)
  if (ipam.kind === 'delegated') {
    const hint = `use "${ownType}", or set "type" to "${ownType}"`
    throw configError(['ipam', 'type'], `${quote(ipam.type)} is not ours`, { id: 'ipam-type-foreign', hint })
  }
  return { ...commonConf(raw, call, ipam), role: 'ipam', mode: 'ipam' }
}

/** The interface of `loopback` and `chained` is not ours to give addresses to. */
function readOwnIpam(raw: RawConfig, mode: Mode, call: Call): IpamConf {
  if (mode === 'loopback' || mode === 'chained') return { kind: 'none' }
  const ipam = readIpam(raw, { invocation: call.invocation, cniVersion: call.head.cniVersion })
  checkStatic(ipam, call)
  checkHasAddresses(ipam, mode === 'ptp' ? 'mode ptp routes by address' : undefined)
  return ipam
}

/** Leniently: the key is the runtime's, and one that is wrong declares nothing. */
function readCapabilities(root: JsonObject): readonly string[] | undefined {
  const declared = Object.entries(asObject(lookUp(root, 'capabilities'))).filter(([, isOn]) => isOn === true)
  return declared.length === 0 ? undefined : declared.map(([name]) => name)
}

/** What acts on an interface whoever made it. */
function featuresOf(raw: RawConfig, { invocation, stdin }: Call, mode: Mode) {
  const portMappings = readPortMappings(raw.runtimeConfig?.portMappings)
  return {
    portMappings,
    ...defined({
      dns: readTopDns(raw),
      mac: readPodMac(raw, invocation, mode === 'chained'),
      portmap: readPortmap(raw.portmap, portMappings),
      firewall: readFirewall(raw.firewall),
      bandwidth: readBandwidth(raw),
      tuning: readTuning(raw, invocation, stdin),
      sbr: readSbr(raw.sbr),
    }),
  }
}

function readOwnRole(call: Call): OwnNetConf {
  const { head, invocation } = call
  const isLoopback = modeIn(head.root, head.type) === 'loopback'
  // Upstream's loopback reads none.
  if (!isLoopback) checkArgs(invocation)
  const raw = readAs(configSchema, withoutUnreadArgs(asObject(withKnownKeys(head.root, configKeys))))
  const prevResult = readPrevious(call)
  const mode = isLoopback ? 'loopback' : (raw.mode ?? usualMode(invocation.verb === 'ADD' && prevResult !== undefined))
  if (mode === 'chained' && invocation.verb === 'ADD' && prevResult === undefined) {
    const hint = 'put it after the plugin that makes the interface'
    throw configError(['prevResult'], 'This plugin must be called as chained plugin', { id: 'chained-first', hint })
  }
  checkMasqBackend(raw.ipMasqBackend)
  const ipam = readOwnIpam(raw, mode, call)
  const read = { ...commonConf(raw, call, ipam), ...featuresOf(raw, call, mode) }
  // Every mode checks the keys of every mode: a wrong value is wrong wherever it stands.
  const [made, bridge] = [readInterface(raw, ipam), readBridge(raw, ipam)]
  const features: FeatureConf = {
    ...read,
    ipMasq: raw.ipMasq ?? (raw.podcidr !== undefined && mode !== 'chained'),
    nonMasqueradeCidrs: readCidrs(raw.nonMasqueradeCIDRs ?? [], ['nonMasqueradeCIDRs']),
    mtu: raw.mtu === 0 ? 'auto' : (raw.mtu ?? 'auto'),
    removeWhenEmpty: raw.removeWhenEmpty ?? false,
    allowOverlap: raw.allowOverlap ?? false,
    ...defined({ capabilities: readCapabilities(head.root), prevResult }),
  }
  const conf = confOf(mode, { features, made, bridge, raw, verb: invocation.verb })
  if (invocation.verb === 'ADD') {
    refuseUnrepresentable(conf)
    checkIpv6Mtu(conf)
  }
  return conf
}

interface Parts {
  readonly features: FeatureConf
  readonly made: ReturnType<typeof readInterface>
  readonly bridge: BridgeConf
  readonly raw: RawConfig
  readonly verb: Invocation['verb']
}

function confOf(mode: Mode, { features, made, bridge, raw, verb }: Parts): OwnNetConf {
  const { isGateway, ...interfaceConf } = made
  switch (mode) {
    case 'bridge':
      return { ...features, ...made, role: 'main', mode, bridge }
    case 'ptp':
      return { ...features, ...made, role: 'main', mode }
    case 'macvlan':
      return checkedMacvlan({ ...features, ...interfaceConf, role: 'main', mode, macvlan: readMacvlan(raw) })
    case 'host-device':
      return withoutHostEnd({ ...features, ...interfaceConf, role: 'main', mode, ...readHostDevice(raw, verb) })
    case 'loopback':
      return { ...features, role: 'main', mode }
    case 'chained':
      return { ...features, role: 'chained', mode }
    default:
      return mode satisfies never
  }
}

/**
 * The configuration of an ADD, CHECK, STATUS or GC. Throws CniError: 6 not JSON, 1 version, 7 a value, 2
 * a value that trestle cannot honour, 4 a value of CNI_ARGS. A `type` that is none of the executable's
 * names means that another plugin delegates to us (docs/design.md, "Attachments").
 */
export function readConfig(stdin: string, invocation: Invocation): NetConf {
  const head = readHead(stdin, invocation)
  const call = { head, invocation, stdin }
  return invocation.ownTypes.includes(head.type) ? readOwnRole(call) : readIpamRole(call)
}

function delRole(isOwn: boolean, root: JsonObject): Role {
  if (!isOwn) return 'ipam'
  return lookUp(root, 'mode') === 'chained' ? 'chained' : 'main'
}

/**
 * The configuration of a DEL, read leniently: JSON, name and cniVersion must be right, and whatever
 * else is wrong counts as absent. `role` is a guess when `mode` is absent: the record knows. `ownTypes`:
 * the names of this executable. Throws CniError 6, 7 (name) or 1.
 */
export function readDelConfig(stdin: string, ownTypes: readonly string[] = [ownType]): DelConf {
  const { root, name, cniVersion, type } = readHead(stdin, { verb: 'DEL', ownTypes })
  const isOwn = ownTypes.includes(type)
  const role = delRole(isOwn, root)
  const ipam = asObject(lookUp(root, 'ipam'))
  const ipamType = lookUp(ipam, 'type')
  const dataDir = lookUp(ipam, 'dataDir')
  const inProcess: readonly unknown[] = [...ownTypes, 'host-local', 'static']
  const isDelegated = role === 'main' && isPluginType(ipamType) && !inProcess.includes(ipamType)
  return {
    cniVersion,
    name,
    type,
    role,
    ...(isOwn && modeIn(root, type) === 'loopback' ? { isLoopback: true } : {}),
    ...(isDelegated ? { delegatedIpam: ipamType } : {}),
    ...(lookUp(root, 'ipam') === undefined ? { isWithoutIpam: true } : {}),
    ...(typeof dataDir === 'string' && dataDir.startsWith('/') ? { dataDir } : {}),
    stdin,
  }
}

/** The keys, with upstream's defaults. Throws CniError 7. */
function readMacvlan({ master, macvlanMode }: RawConfig): MacvlanConf {
  const mode = macvlanMode ?? 'bridge'
  if (master === undefined || master === '') return { mode }
  const problem = linkNameProblem(master) ?? unsafeNameProblem(master)
  if (problem === undefined) return { master, mode }
  const hint =
    'use the name of an interface of the node, like "eth0", or leave it out for the one with the default route'
  throw notA(['master'], master, { id: 'master-unusable', what: `an interface: ${problem}`, hint })
}

/** Throws CniError 7 for a feature that needs an end on the host. */
function withoutHostEnd<Conf extends MacvlanNetConf | HostDeviceNetConf>(conf: Conf): Conf {
  const { bandwidth, firewall, portMappings, mode } = conf
  const message = `mode ${mode} has no end on the host, which this needs`
  const hint = 'use mode bridge or ptp, or leave it out'
  if (bandwidth !== undefined) throw configError(['bandwidth'], message, { id: 'bandwidth-without-veth', hint })
  if (firewall !== undefined && firewall.ingressPolicy !== 'open')
    throw configError(['firewall', 'ingressPolicy'], message, { id: 'policy-without-veth', hint })
  if (portMappings.length > 0)
    throw configError(['runtimeConfig', 'portMappings'], message, { id: 'ports-without-route', hint })
  return conf
}

/** Throws CniError 2 besides for a MAC that would become the master's. */
function checkedMacvlan(conf: MacvlanNetConf): MacvlanNetConf {
  const { mac, tuning, macvlan } = withoutHostEnd(conf)
  const asked = tuning?.mac ?? mac
  if (macvlan.mode === 'passthru' && asked !== undefined)
    throw unsupported(['mac'], asked, 'with "macvlanMode": "passthru" the pod has the MAC of the master: ask for none')
  return conf
}

/** The keys that name a device, each with the form of its value: paths below /sys are made of them. */
const deviceKeys = {
  device: { what: 'an interface', hint: 'use the name of an interface of the node, like "eth1"', read: readDeviceName },
  hwaddr: { what: 'a MAC address', hint: 'use one like "c2:11:22:33:44:55"', read: readHardwareAddress },
  kernelpath: {
    what: 'a path below /sys/devices',
    hint: 'use one like "/sys/devices/pci0000:00/0000:00:1f.6", without . and ..',
    read: (path: string) =>
      path
        .split('/')
        .slice(1)
        .some((part) => ['', '.', '..'].includes(part))
        ? undefined
        : pathOfDevice(path),
  },
  pciBusID: {
    what: 'a PCI address',
    hint: 'use one like "0000:00:1f.6": lspci -D shows them',
    read: (id: string) => (/^[\da-f]{4,8}:[\da-f]{2}:[\da-f]{2}\.[0-7]$/i.test(id) ? id.toLowerCase() : undefined),
  },
  deviceID: {
    what: 'a PCI address, or a name on the auxiliary bus',
    hint: 'use what the device plugin of the node allocates, like "0000:00:1f.6"',
    read: (id: string) => (/^[\w:.-]+$/.test(id) && !/^\.+$/.test(id) ? id : undefined),
  },
} as const

function pathOfDevice(path: string): string | undefined {
  return /^\/sys\/devices(?:\/[\w:.,@+-]+)+$/.test(path) ? path : undefined
}

function readDeviceName(name: string): string | undefined {
  return (linkNameProblem(name) ?? unsafeNameProblem(name)) === undefined ? name : undefined
}

/** The forms of Go's net.ParseMAC, in the kernel's: also of InfiniBand, with 20 bytes. */
function readHardwareAddress(text: string): string | undefined {
  const isForm = /^[\da-f]{2}(?:([:-])[\da-f]{2})(?:\1[\da-f]{2})+$|^[\da-f]{4}(?:\.[\da-f]{4})+$/i.test(text)
  const bytes = text.toLowerCase().match(/[\da-f]{2}/g) ?? []
  return isForm && [6, 8, 20].includes(bytes.length) ? bytes.join(':') : undefined
}

/**
 * The device, by one key. The runtime's takes the place of `pciBusID`, which Multus writes beside it. Only an ADD has
 * what the runtime says. Throws CniError 7.
 */
function readHostDevice(raw: RawConfig, verb: Invocation['verb']): { readonly device?: DeviceQuery } {
  const named = { ...raw, deviceID: raw.runtimeConfig?.deviceID }
  const keys = (['device', 'hwaddr', 'kernelpath', 'pciBusID', 'deviceID'] as const).filter((each) => named[each])
  const [key, second] = keys.filter((each) => each !== 'pciBusID' || !keys.includes('deviceID'))
  const id = 'device-keys'
  if (second !== undefined)
    throw configError([key ?? ''], `names a device, and so does ${second}`, { id, hint: 'use one of them' })
  if (key === undefined && verb !== 'ADD') return {}
  if (key === undefined) {
    const hint = 'use "device", "hwaddr", "kernelpath" or "pciBusID", or the capability deviceID'
    throw configError(['device'], 'no device is named', { id, hint })
  }
  const { what, hint, read } = deviceKeys[key]
  const value = read(named[key] ?? '')
  const path = key === 'deviceID' ? ['runtimeConfig', key] : [key]
  if (value === undefined) throw notA(path, named[key], { id: 'device-form', what, hint })
  return { device: { key, value } }
}

// An MTU that is too small for the addresses: IPv6 is not there on such a link.

/** RFC 8200, section 5; the kernel takes IPv6 off a link with less (net/ipv6/addrconf.c). */
const LEAST_IPV6_MTU = 1280

/** Whether the configuration gives pods IPv6 addresses; a delegated plugin's are not known. */
export function hasIpv6(ipam: IpamConf): boolean {
  if (ipam.kind === 'pool') return ipam.rangeSets.some((ranges) => ranges.some(({ subnet }) => familyOf(subnet) === 6))
  return ipam.kind === 'static' && ipam.addresses.some(({ address }) => familyOf(address) === 6)
}

/** Whether pods are known to have IPv4 alone; a delegated plugin's addresses are not known, nor is a pod without any. */
export function isIpv4Only(ipam: IpamConf): boolean {
  return (ipam.kind === 'pool' || ipam.kind === 'static') && !hasIpv6(ipam)
}

/** Throws CniError invalidConfig where the pod is to have an IPv6 address and an MTU that allows none. */
function checkIpv6Mtu({ ipam, mtu, tuning }: Pick<FeatureConf, 'ipam' | 'mtu' | 'tuning'>): void {
  if (!hasIpv6(ipam)) return
  for (const [path, value] of [[['mtu'], mtu] as const, [['tuning', 'mtu'], tuning?.mtu] as const]) {
    if (typeof value !== 'number' || value >= LEAST_IPV6_MTU) continue
    const hint = `use ${LEAST_IPV6_MTU} or more, or no IPv6 range`
    throw configError(path, `${value} is too small for IPv6`, { id: 'mtu-below-ipv6', hint })
  }
}

/**
 * Refuses an ADD whose result its version could not hold, before anything is touched: no address
 * below 0.3.0. (More than one of a family is refused where the ranges are read.) Throws CniError invalidConfig.
 */
function refuseUnrepresentable(conf: Pick<OwnNetConf, 'cniVersion' | 'mode' | 'ipam' | 'prevResult'>): void {
  if (atLeast(conf.cniVersion, '0.3.0') || conf.mode === 'loopback' || conf.ipam.kind !== 'none') return
  if (conf.mode === 'chained' && (conf.prevResult?.ips.length ?? 0) > 0) return
  throw noAddress(conf.cniVersion)
}
