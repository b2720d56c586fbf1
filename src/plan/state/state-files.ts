// SPDX-License-Identifier: Apache-2.0
// What is in each file of the state (docs/design.md, "State"). Text and numbers are what tools/ writes into batches,
// which checks them there; what goes into commands of other firewalls is checked here.

import { networkOf, overlaps, parseAddress, parseCidr } from '../../cni/address.ts'
import type { Dns } from '../../cni/result.ts'
import type { ChainPlace, MarkAccept, ZoneMember } from '../../features/accept-place.ts'
import type { Cluster } from '../../features/cluster.ts'
import type {
  AttachmentKey,
  AttachmentSpec,
  BandwidthSpec,
  BridgePort,
  BridgeSpec,
  ChainedSpec,
  DeviceSpec,
  FormerGateway,
  HostPort,
  HostPortSpec,
  LinkEnd,
  LinkSettings,
  MacvlanSpec,
  NetworkSpec,
  PodAddress,
  PodRoute,
  PortVlans,
  SbrSpec,
  Shaper,
  TuningSpec,
  VlanGateway,
} from '../../model/attachment.ts'
import { type AttachmentRecord, type NetnsIdentity, type ProcessIdentity, sameKey } from '../../model/record.ts'
import { emptyMemory, type Memory, type RememberedPeer } from '../agent/memory.ts'
import {
  believed,
  decoded,
  decodeFile,
  encodeFile,
  flag,
  format,
  isSameAsKnown,
  isTrue,
  type Kind,
  listOf,
  number,
  object,
  only,
  optional,
  optionalFlag,
  optionalNumber,
  optionalText,
  optionalTexts,
  optionalWord,
  or,
  parsedFile,
  text,
  textMap,
  texts,
  withUnknown,
  word,
} from './kinds.ts'

// An attachment: `spec` and `seen` of a record.

const key = object<AttachmentKey>({ network: text, containerId: text, ifName: text, role: word })

/** 4 or 6. */
const family = only<4 | 6>((value) => value === 4 || value === 6)

const route = object<PodRoute>({
  dst: text,
  gw: optionalText,
  mtu: optionalNumber,
  advmss: optionalNumber,
  priority: optionalNumber,
  table: optionalNumber,
  scope: optionalNumber,
  src: optionalText,
  onlink: optional(isTrue),
  protocol: optionalText,
})

const linkEnd = object<LinkEnd>({ name: text, mac: text, mtu: optionalNumber })

const vlans = object<PortVlans>({ access: number, trunk: listOf(number), keepDefault: flag })

const port = object<BridgePort>({
  bridge: text,
  hairpin: flag,
  isolated: flag,
  vlans: optional(vlans),
  onlyMac: optionalText,
})

const hostPort = object<HostPort>({
  family,
  protocol: word,
  hostIp: optionalText,
  hostPort: number,
  podIp: text,
  containerPort: number,
})

const hostPorts = object<HostPortSpec>({
  link: text,
  snat: flag,
  masqAll: flag,
  conditionsV4: optionalTexts,
  conditionsV6: optionalTexts,
  ports: listOf(hostPort),
})

const shaper = object<Shaper>({ rateBits: number, burstBytes: number })

const egress = object<NonNullable<BandwidthSpec['egress']>>({
  rateBits: number,
  burstBytes: number,
  ifb: text,
  ifbMac: text,
  ifbAlias: optionalText,
})

const bandwidth = object<BandwidthSpec>({
  link: text,
  mtu: number,
  ingress: optional(shaper),
  egress: optional(egress),
})

const settings = object<LinkSettings>({
  mac: optionalText,
  mtu: optionalNumber,
  promisc: optionalFlag,
  allmulti: optionalFlag,
  txQLen: optionalNumber,
})

const tuning = object<TuningSpec>({
  sysctl: textMap,
  promisc: flag,
  txQLen: optionalNumber,
  allmulti: optionalFlag,
  mac: optionalText,
  mtu: optionalNumber,
  before: optional(settings),
})

const source = object<SbrSpec['sources'][number]>({ from: text, table: number, routes: listOf(route) })

const chained = object<ChainedSpec>({
  dev: text,
  hostLink: optionalText,
  isolated: optional(isTrue),
  ingressPolicy: optionalWord,
})

const device = object<DeviceSpec>({
  name: text,
  asked: text,
  mac: text,
  mtu: number,
  up: flag,
  kind: optionalText,
  alias: optionalText,
  driver: optionalText,
})

const attachment = object<AttachmentSpec>({
  key,
  mode: word,
  mtu: number,
  host: optional(linkEnd),
  pod: optional(linkEnd),
  port: optional(port),
  ips: listOf(object<PodAddress>({ address: text, gateway: optionalText })),
  routes: listOf(route),
  defaultRoutes: listOf(route),
  podLinkDown: flag,
  dad: flag,
  dns: believed(
    object<Dns>({ nameservers: optionalTexts, domain: optionalText, search: optionalTexts, options: optionalTexts }),
  ),
  selfHairpin: flag,
  ingressPolicy: optionalWord,
  hostPorts: optional(hostPorts),
  bandwidth: optional(bandwidth),
  tuning: optional(tuning),
  sbr: optional(object<SbrSpec>({ sources: listOf(source), moved: listOf(route) })),
  chained: optional(chained),
  macvlan: optional(object<MacvlanSpec>({ master: text, mode: word })),
  device: optional(device),
  isPool: flag,
  cooldownS: number,
})

// network.json, chained.json: what the attachments of a network share.

const bridge = object<BridgeSpec>({
  name: text,
  mac: text,
  mtu: number,
  addresses: texts,
  forceAddress: flag,
  promisc: flag,
  vlanFiltering: flag,
  gateway: optional(object<VlanGateway>({ name: text, mac: text, peer: text, vlan: number })),
})

type AcceptNew = Exclude<NetworkSpec['acceptNew'], undefined>
const newConnections = object<Exclude<AcceptNew, 'none'>>({ to: texts, from: texts })

const network = object<NetworkSpec>({
  name: text,
  bridge: optional(bridge),
  forwarding: listOf(family),
  masquerade: optional(object<NonNullable<NetworkSpec['masquerade']>>({ subnets: texts, noMasquerade: texts })),
  hairpin: optionalTexts,
  ingressPolicy: optionalWord,
  ingressPolicyLink: optionalText,
  hostAccept: optionalText,
  acceptSubnets: optionalTexts,
  ranges: optionalTexts,
  excluded: optionalTexts,
  formerGateways: optional(listOf(object<FormerGateway>({ bridge: text, address: text }))),
  acceptNew: optional(only<AcceptNew>((value) => value === 'none' || newConnections.accepts(value))),
  acceptMarkBit: optional(
    only<number>((value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 31),
  ),
  firewalldZone: optionalText,
  removeWhenEmpty: flag,
})

/** What a network's attachments share; undefined where the text is something else. */
export function decodeNetwork(json: string): NetworkSpec | undefined {
  return decodeFile(network, json)
}

/** The text of network.json or chained.json. `before`: the text that it takes the place of. */
export function encodeNetwork(spec: NetworkSpec, before = ''): string {
  const { found, parts } = parsedFile(before)
  return encodeFile(found === format ? withUnknown(network, parts, spec) : spec)
}

/** Whether two networks are the same, but for what only another release knows of them. */
export function isSameNetwork(a: NetworkSpec | undefined, b: NetworkSpec | undefined): boolean {
  return isSameAsKnown(network, a, b)
}

// A record: in pending/, attachments/, and behind each reserved address and host port.

/** Without its boot id nobody can tell whether the writer lives; the rest may be another format's. */
const identity = {
  pid: or(number, 0),
  startTime: or(text, ''),
  bootId: text,
  pidNamespace: or(text, ''),
  netNamespace: believed(text),
}

const record = object<Omit<AttachmentRecord, 'otherFormat'>>({
  key,
  writer: object<ProcessIdentity>(identity),
  netns: object<NetnsIdentity>({ path: text, inode: or(number, 0), pidNamespace: believed(text) }),
  createdAt: or(text, ''),
  pod: believed(object<NonNullable<AttachmentRecord['pod']>>({ namespace: text, name: text, uid: optionalText })),
  askedBy: believed(word),
  configDigest: or(text, ''),
  delegatedIpam: believed(text),
  spec: believed(attachment),
  seen: believed(attachment),
  notOf: believed(texts),
  network: believed(network),
  adopted: believed(object<NonNullable<AttachmentRecord['adopted']>>({ dataDir: text })),
  pendingCleanup: believed(texts),
})

/**
 * A record from JSON text, or undefined when it is none: truncated or of another shape. One of another format, before
 * an upgrade or after a downgrade, is no damage: whose it is can be read, and DEL finds the rest by names, reservations
 * and rules, as for a record that was lost. Parts that another release wrote differently are not acted on: the record
 * still says whose the reservations are.
 */
export function decodeRecord(json: string): AttachmentRecord | undefined {
  const { found, parts } = parsedFile(json)
  const whole = typeof found === 'number' ? decoded(record, parts) : undefined
  if (whole === undefined) return undefined
  const { spec, seen, network: shared, ...rest } = whole
  if (found !== format) return { ...rest, otherFormat: found as number }
  return {
    ...rest,
    ...(spec && sameKey(spec.key, rest.key) ? { spec } : {}),
    ...(seen && sameKey(seen.key, rest.key) ? { seen } : {}),
    ...(shared ? { network: shared } : {}),
  }
}

/** The text of a record. */
export function encodeRecord(value: AttachmentRecord): string {
  return encodeFile(value)
}

// A lock: who holds it, and for what, which is shown to those who wait.

export interface LockHolder extends ProcessIdentity {
  readonly purpose: string
}

const lockHolder = object<LockHolder>({ ...identity, pid: number, purpose: or(text, '') })

/**
 * The holder that a lock's text names; undefined where it names none. Of any format: one that another release has taken
 * is held all the same.
 */
export function decodeHolder(json: string): LockHolder | undefined {
  return decoded(lockHolder, parsedFile(json).parts)
}

/** The text of a lock. */
export function encodeHolder(value: LockHolder): string {
  return encodeFile(value)
}

// NETWORK-accept.json, and accept.json of the machine: where accepts were put for us in other firewalls.

const textLike = <T extends string = string>(pattern: RegExp) =>
  only<T>((value) => typeof value === 'string' && pattern.test(value))

const plainName = textLike(/^[^\s"';{}#]+$/)

type IptablesPlace = Omit<Extract<ChainPlace, { kind: 'iptables' }>, 'table'>

/** Its program is started: only the variants that we ask for a FORWARD chain. */
const iptablesPlace = object<IptablesPlace>({
  kind: textLike(/^iptables$/),
  program: textLike(/^ip6?tables(-nft|-legacy)?$/),
  chain: textLike(/^[^-\s"';{}#][^\s"';{}#]*$/),
})

const nftPlace = object<Extract<ChainPlace, { kind: 'nft' }>>({
  kind: textLike(/^nft$/),
  family: plainName,
  table: plainName,
  chain: plainName,
})

const zones = object<{ readonly zones: readonly ZoneMember[] }>({
  zones: listOf(object<ZoneMember>({ subject: text, zone: plainName })),
})

const markAccept = object<MarkAccept>({
  mark: only<number>(Number.isInteger),
  places: listOf(only<ChainPlace>((value) => iptablesPlace.accepts(value) || nftPlace.accepts(value))),
})

/** The zones of a network's bridge or subnets; undefined where the text is something else. */
export function decodeZones(json: string): readonly ZoneMember[] | undefined {
  return decodeFile(zones, json)?.zones
}

/** The text of the zones. */
export function encodeZones(members: readonly ZoneMember[]): string {
  return encodeFile({ zones: members })
}

/** Where the accept of the mark was put; undefined where the text is something else. */
export function decodeMarkAccept(json: string): MarkAccept | undefined {
  return decodeFile(markAccept, json)
}

/** The text of it. */
export function encodeMarkAccept(value: MarkAccept): string {
  return encodeFile(value)
}

// cluster.json, for whoever sets rules up, and agent.json, for the next agent: written by `trestle agent`.

const range = only<string>((value) => {
  const cidr = typeof value === 'string' ? parseCidr(value) : undefined
  return cidr !== undefined && networkOf(cidr).value === cidr.value
})

const address = only<string>((value) => typeof value === 'string' && parseAddress(value) !== undefined)

const cluster = object<Cluster>({ pods: listOf(range), peers: listOf(range), addresses: listOf(address) })

const peer = object<RememberedPeer>({ name: text, ranges: texts, addresses: texts, goneSinceMs: optionalNumber })

const memory: Kind<Memory> = object<Memory>({ peers: listOf(peer), own: texts })

/** The cluster; undefined where the text is something else. Nothing in it reaches nft unread. */
export function decodeCluster(json: string): Cluster | undefined {
  const found = decodeFile(cluster, json)
  return found !== undefined && isApart(found) ? found : undefined
}

function isApart({ pods, peers }: Cluster): boolean {
  const podRanges = pods.flatMap((each) => parseCidr(each) ?? [])
  return !peers
    .flatMap((each) => parseCidr(each) ?? [])
    .some((other) => podRanges.some((each) => overlaps(each, other)))
}

/** The text of the cluster. */
export function encodeCluster(value: Cluster): string {
  return encodeFile(value)
}

/** The agent's memory; an empty one where the text is something else. */
export function decodeMemory(json: string): Memory {
  return decodeFile(memory, json) ?? emptyMemory
}

/** The text of it. */
export function encodeMemory(value: Memory): string {
  return encodeFile(value)
}

// nft.json: the version that a tool has told, and the file that told it.

/** A program's file; `inode` and `mtimeMs` tell it from another one under its path. */
export interface ToolFile {
  readonly path: string
  readonly inode: number
  readonly mtimeMs: number
}

/** What is known of it. */
export interface ToolVersion extends ToolFile {
  readonly version: string
}

const toolVersion = object<ToolVersion>({ path: text, inode: number, mtimeMs: number, version: text })

/** The version; undefined where the text is something else. */
export function decodeToolVersion(json: string): ToolVersion | undefined {
  return decodeFile(toolVersion, json)
}

/** The text of it. */
export function encodeToolVersion(value: ToolVersion): string {
  return encodeFile(value)
}
