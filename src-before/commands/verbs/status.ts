// SPDX-License-Identifier: Apache-2.0
// STATUS: could the next ADD succeed? Asked every few seconds, so it starts no process of ours. What
// the next ADD sets up by itself (bridge, table, forwarding) is no reason to say no.

import { setTimeout as sleep } from 'node:timers/promises'
import { CniError } from '../../cni/error.ts'
import { CniCode, type ErrorId } from '../../cni/error-code.ts'
import type { Invocation } from '../../cni/invocation.ts'
import { hasIpv6 } from '../../config/config.ts'
import type { DeviceQuery, InterfaceNetConf, NetConf, OwnNetConf, PoolIpam, Range } from '../../config/net-conf.ts'
import { mostBridgePorts } from '../../drivers/bridge.ts'
import { bridgeOf, deviceOf, interfaceDriverOf, makesInterface } from '../../drivers/drivers.ts'
import { hasDevice } from '../../drivers/host-device.ts'
import { buildNetworkSpec } from '../../drivers/specs.ts'
import { subnetsOf } from '../../drivers/subnets.ts'
import type { NetworkSpec } from '../../model/attachment.ts'
import { bridgeMac, keyOfHostLink } from '../../model/names.ts'
import type { AddressedLinks } from '../../model/observed.ts'
import { capacity, countedOf, describeCooling, describeSet } from '../../plan/ipam/allocate.ts'
import { agreeOnAddresses } from '../../plan/ipam/bridge-addresses.ts'
import {
  emptyInTheWay,
  judgePlaces,
  judgeRanges,
  overlapError,
  wasSetUp,
  withExcluded,
} from '../../plan/ipam/range-overlap.ts'
import { namesIn } from '../../system/files/files.ts'
import { type NetworkFiles, networkDirectories, networkFiles, requireUsableState } from '../../system/files/state.ts'
import { delegate } from '../../system/ipam/delegate.ts'
import { isDeviceThere } from '../../system/kernel/devices.ts'
import { bridgePorts, linkExists } from '../../system/kernel/kernel-files.ts'
import { linksInFiles } from '../../system/kernel/links-in-files.ts'
import { tooOldNft } from '../../system/kernel/nft-version.ts'
import { missingCapabilities } from '../../system/process/capabilities.ts'
import { nowMs } from '../../system/process/clock.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { isOnPath } from '../../system/process/programs.ts'
import type { Deadline } from '../../system/process/runner.ts'
import { coolingAddresses, holderOf } from '../../system/store/addresses.ts'
import { allNetworks, readNetwork, someRecord } from '../../system/store/records.ts'
import { upstreamAddresses, upstreamNamesElsewhere } from '../../system/upstream/host-local-leases.ts'
import { gatewaysElsewhere, holderElsewhere } from '../attach/range-overlap.ts'
import type { CallContext } from '../call/context.ts'
import { placedPods } from '../call/in-use.ts'
import { isOldFile } from '../recover/collect.ts'
import { isDead } from '../teardown/attachments.ts'

/** Few enough free ports of a bridge to say so, which an operator has to act on. */
const fewPorts = 23

/**
 * How long after its first no STATUS looks again. Runtimes take a node out of service by a no (docs/kubernetes.md): too
 * much for a pool that is full until the next DEL, or for a tool that is being replaced.
 */
const againMs = 1000

/** An address that is free by then takes no node out of service. */
const soonS = 30

/** What no second changes: what the process may do, and a call that is to end. */
const lasting: readonly ErrorId[] = ['not-ready-capability', 'call-interrupted', 'command-too-slow']

/** Throws CniError 50 with the reason when an ADD would fail now and a second later, or the delegate's error. */
export async function status(context: CallContext, call: Invocation, conf: NetConf): Promise<void> {
  try {
    await requireReady(context, call, conf)
  } catch (error) {
    const isLasting = error instanceof CniError && lasting.includes(error.id)
    if (isLasting || !(await canWait(context.work, againMs))) throw error
    await requireReady(context, call, conf)
  }
}

/** Waits, and says whether that was possible: not beyond the call's time, and not when it is to end. */
async function canWait({ endsAtMs, signal }: Deadline, ms: number): Promise<boolean> {
  if (nowMs() + ms > endsAtMs) return false
  return await sleep(ms, true, signal === undefined ? {} : { signal }).catch(() => false)
}

async function requireReady(context: CallContext, call: Invocation, conf: NetConf): Promise<void> {
  saying('not-ready-state', () => requireUsableState(conf.name))
  requireCapabilities(conf)
  requireTools(conf)
  const files = networkFiles(conf.name)
  const known = conf.role === 'main' ? readNetwork(files) : undefined
  saying('not-ready-network', () => requireRoom(context, conf, known))
  if (conf.ipam.kind === 'pool') {
    const excluded = known?.excluded ?? []
    requireFreeAddress(context, files, { conf, ipam: withExcluded(conf.ipam, excluded) })
  }
  const bridge = bridgeOf(conf)
  if (bridge !== undefined) requireFreePort(bridge)
  const device = deviceOf(conf)
  if (device !== undefined) requireDevice(device)
  if (conf.ipam.kind === 'delegated') await askDelegate(context, call, { type: conf.ipam.type, stdin: conf.stdin })
}

/** Throws the CniError of `require` as one of STATUS. */
function saying(id: ErrorId, require: () => void): void {
  try {
    require()
  } catch (cause) {
    throw cause instanceof CniError ? notReadyFor(id, cause) : cause
  }
}

/** Its own error is passed on (CNI spec 1.1.0, section 4); one that is missing or crashes serves no ADD either. */
async function askDelegate(context: CallContext, call: Invocation, to: { type: string; stdin: string }): Promise<void> {
  try {
    await delegate(context.run, { ...to, verb: 'STATUS', path: call.path })
  } catch (cause) {
    if (!(cause instanceof CniError) || cause.code !== CniCode.delegateFailed) throw cause
    throw notReadyFor('not-ready-ipam', cause)
  }
}

/** Chained, it depends on the pod which of them a call needs. */
function requireCapabilities({ role }: NetConf): void {
  const missing = role === 'ipam' || role === 'chained' ? [] : missingCapabilities()
  if (missing.length === 0) return
  const names = missing.map(({ name }) => name).join(' and ')
  throw notReady('not-ready-capability', `${names} missing`, missing.map(({ hint }) => hint).join('\n'))
}

function requireTools(conf: NetConf): void {
  if (conf.role === 'ipam') return
  const missing = toolsOf(conf).filter((tool) => !isOnPath(tool))
  if (missing.length === 0) {
    if (hasRules(conf)) requireNewNft()
    return
  }
  throw notReady(
    'not-ready-tool',
    `${missing.join(', ')} not found`,
    'install them (Debian: iproute2, util-linux, nftables, procps; Fedora has tc in iproute-tc), or add their ' +
      'directory to PATH',
  )
}

function requireNewNft(): void {
  const old = tooOldNft()
  if (old === undefined) return
  throw notReady(
    'not-ready-nft',
    `nft ${old.version} is too old`,
    `${old.path}: the rules need nftables ${old.needed} or newer: update it`,
  )
}

/** Whether pods may get rules, also host ports where a capability lets them ask for these. */
function hasRules({ ipMasq, firewall, capabilities = [], ...conf }: OwnNetConf): boolean {
  const isIsolating = firewall !== undefined && firewall.ingressPolicy !== 'open'
  const hasMacCheck = 'bridge' in conf && conf.bridge.macspoofchk
  return ipMasq || hasMacCheck || isIsolating || capabilities.includes('portMappings')
}

/** What an ADD of this configuration runs, also for host ports and limits where a capability lets pods ask for them. */
function toolsOf(conf: OwnNetConf): readonly string[] {
  if (conf.mode === 'loopback') return ['ip', 'nsenter']
  const { ipam, tuning, capabilities = [] } = conf
  const bridge = 'bridge' in conf ? conf.bridge : undefined
  const hasLimits = conf.bandwidth !== undefined || capabilities.includes('bandwidth')
  const hasVlans = bridge !== undefined && (bridge.vlan > 0 || bridge.vlanTrunk !== undefined)
  const hasSysctls =
    Object.keys(tuning?.sysctl ?? {}).length > 0 || ('enabledad' in conf && conf.enabledad && hasIpv6(ipam))
  return [
    'ip',
    'nsenter',
    // Also without rules: DEL and GC of what has no record look at our tables.
    'nft',
    ...(hasLimits ? ['tc'] : []),
    ...(hasSysctls ? ['sysctl'] : []),
    ...(hasVlans ? ['bridge'] : []),
  ]
}

function requireFreeAddress(context: CallContext, files: NetworkFiles, pool: { conf: NetConf; ipam: PoolIpam }): void {
  const { conf, ipam } = pool
  // An adopted pod's address is in both.
  const ours = namesIn(files.addresses)
  const theirs = upstreamAddresses(ipam.dataDir, conf.name).filter((address) => !ours.includes(address))
  const cooling = coolingAddresses(files, ipam.cooldownS)
  const isCoolingLong = (address: string) => (cooling.get(address) ?? 0) > soonS
  const taken = [...ours, ...theirs, ...[...cooling.keys()].filter(isCoolingLong)]
  for (const set of ipam.rangeSets) {
    const own = countedOf(set, ipam.exclude, taken)
    const total = capacity(set, ipam.exclude)
    const inSet =
      BigInt(own.length) < total ? [...own, ...inSetElsewhere(context, files, { conf, ipam, own, set })] : own
    if (BigInt(inSet.length) < total || own.some((address) => isReclaimable(context, files, { address, conf })))
      continue
    const left = own.flatMap((address) => cooling.get(address) ?? [])
    const held = { total, cooling: left.length, theirs: countedOf(set, ipam.exclude, theirs).length }
    throw notReady(
      'not-ready-pool',
      `no IP addresses available in range set ${describeSet(set)}`,
      `${describeCooling(left)}${reasonOfFull(held)}`.trimEnd(),
    )
  }
}

/** `theirs`: those of the set that host-local reserved and nobody has adopted, in which case a dead pod keeps them. */
function reasonOfFull({ total, cooling, theirs }: { total: bigint; cooling: number; theirs: number }): string {
  if (BigInt(cooling) >= total) return ''
  const held = cooling === 0 ? `all ${total} are` : `the rest (${total - BigInt(cooling)}) is`
  if (theirs === 0)
    return `${held} held for pods whose network namespace exists; trestle gc names those that no runtime lists`
  const how = 'trestle adopt --apply frees those of pods that are gone'
  return `${held} held, ${theirs} of them by host-local; ${how}`
}

/** Addresses of the set that live pods of other networks have, where with those none may be free. */
function inSetElsewhere(
  context: CallContext,
  files: NetworkFiles,
  { conf, ipam, own, set }: { conf: NetConf; ipam: PoolIpam; own: readonly string[]; set: readonly Range[] },
): readonly string[] {
  const { exclude } = ipam
  const others = networkDirectories().filter(({ directory }) => directory !== files.directory)
  const asking = { conf, files, names: namesIn }
  const reserved = [
    ...others.flatMap(({ addresses }) => namesIn(addresses)),
    ...upstreamNamesElsewhere(ipam.dataDir, conf.name),
    ...gatewaysElsewhere(asking).keys(),
  ]
  const names = new Set(reserved.filter((name) => !own.includes(name)))
  const theirs = countedOf(set, exclude, names)
  if (BigInt(own.length + theirs.length) < capacity(set, exclude)) return []
  const holder = holderElsewhere(context, asking)
  return theirs.filter((address) => holder(address) !== undefined)
}

/**
 * What the next ADD takes back: of a dead holder, or of one that cannot be read. Whether the latter lives takes
 * processes: the ADD looks, and makes it readable where it does.
 */
function isReclaimable(
  context: CallContext,
  files: NetworkFiles,
  { address, conf }: { address: string; conf: NetConf },
): boolean {
  const record = holderOf(files, address)
  if (record !== undefined) return isDead({ file: '', isPending: false, record }, context)
  return conf.role === 'main' && isOldFile(context, `${files.addresses}/${address}`, undefined)
}

function requireFreePort(name: string): void {
  const ports = bridgePorts(name) ?? recordedPorts(name)
  const hint = 'Linux allows no more on one bridge; use a second network with another "bridge"'
  const free = mostBridgePorts - ports
  if (free <= 0) throw notReady('not-ready-bridge', `bridge ${name} has ${ports} of ${mostBridgePorts} ports`, hint)
  if (free > fewPorts) return
  process.stderr.write(`trestle: STATUS: bridge ${name} has ${ports} of ${mostBridgePorts} ports: ${hint}\n`)
}

function requireDevice(query: DeviceQuery): void {
  if (isDeviceThere(query) !== false) return
  const { key, value } = query
  if (key !== 'master') {
    // A pod that has it gives it back.
    if (someRecord(({ record: { spec } }) => spec !== undefined && hasDevice(spec, query, undefined))) return
    throw notReady('not-ready-device', `${key}: the node has no interface for ${value}`, 'see what it has: ip -d link')
  }
  const what = value === undefined ? 'no interface has a default route' : `the node has no interface ${value}`
  throw notReady('not-ready-master', what, 'name an interface of the node: "master"; ip -br link shows them')
}

/** What our own records say, where the kernel's files do not show this network namespace. */
function recordedPorts(bridge: string): number {
  const onBridge = networkDirectories().filter((files) => readNetwork(files)?.bridge?.name === bridge)
  return onBridge.reduce((sum, files) => sum + namesIn(files.attachments).filter(isMain).length, 0)
}

/** Only a main attachment has a port: `ID:IFNAME`, others have their role behind it. */
function isMain(name: string): boolean {
  return name.split(':').length === 2
}

function notReady(id: ErrorId, why: string, hint: string): CniError {
  return new CniError(id, `not ready: ${why}`, { details: hint })
}

function notReadyFor(id: ErrorId, cause: CniError): CniError {
  return new CniError(id, `not ready: ${cause.message}`, { details: cause.details ?? '', cause })
}

// Of a network that the next ADD has to set up: whether that would be refused, by the judgement of the ADD itself, on
// what files tell.

/**
 * Throws CniError 110 for a range of the configuration that overlaps one of the host's, 108 for a bridge with another
 * address. Nothing is looked at of a network that was set up like this, nor where the addresses come with the ADD
 * (another IPAM plugin, `static`, ranges of the runtime). `known`: as it was set up.
 */
function requireRoom(context: CallContext, conf: NetConf, known: NetworkSpec | undefined): void {
  if (!makesInterface(conf) || conf.ipam.kind !== 'pool') return
  const isApart = wasSetUp(interfaceDriverOf(conf).gatewaySide(conf, []), known, linkExists)
  if (isApart && bridgeOf(conf) === known?.bridge?.name) return
  const host = linksInFiles()
  if (host === undefined) return
  const others = allNetworks().filter(({ name }) => name !== conf.name)
  if (!conf.allowOverlap) requireOwnRanges(context, conf, { host, others, known })
  requireOwnBridge(context, conf, { host, others, known })
}

interface Around {
  readonly host: AddressedLinks
  readonly others: readonly NetworkSpec[]
  readonly known: NetworkSpec | undefined
}

/** A routed network without a pod makes room when the ADD comes. Ranges without a gateway may be those of own pods. */
function requireOwnRanges(context: CallContext, conf: InterfaceNetConf, { host, others, known }: Around): void {
  const { name } = conf
  const key = { network: name, containerId: '', ifName: '', role: 'main' } as const
  const [network, pods] = [interfaceDriverOf(conf).gatewaySide(conf, []), placedPods(context, others)]
  const empty = emptyInTheWay({ network, others, pods })
  const inTheWay = others.filter((other) => !empty.includes(other.name))
  const ownMac = (bridge: string) => bridgeMac(bridge, machineId())
  const question = { network, others: inTheWay, pods }
  const byHost = judgeRanges(question, key, { host, known, ownMac })
  const byState = judgePlaces({ ...question, subnets: subnetsOf(conf, []) }, key, new Set(host.links.keys()))
  const refused = byHost.refused ?? byState.refused
  // Which links have a default route is not known here: none is to be removed.
  if (refused !== undefined) throw overlapError(name, { overlaps: refused, kept: new Set(host.links.keys()) })
}

/** Ports of a network without state are the ADD's to rediscover: whose the addresses are is not known before. */
function requireOwnBridge(context: CallContext, conf: InterfaceNetConf, { host, others, known: before }: Around): void {
  const id = machineId()
  // No MTU decides anything here.
  const network = buildNetworkSpec(conf, [], { mtu: 1500, machineId: id })
  const bridge = network.bridge?.name
  if (bridge === undefined) return
  const known = [conf.name, ...others.map(({ name }) => name)]
  const ports = [...host.links.values()].filter(({ master }) => master === bridge)
  const owners = ports.flatMap(({ name, alias }) => keyOfHostLink(name, alias)?.network ?? [])
  const pods = placedPods(context, others)
  if (owners.every((owner) => known.includes(owner)))
    agreeOnAddresses({ network, others, before, pods, host, ownMac: bridgeMac(bridge, id) })
}
