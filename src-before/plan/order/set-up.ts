// SPDX-License-Identifier: Apache-2.0
// The plans that set up and repair the shared parts of networks: bridge, forwarding, rules. Their sources are state and
// kernel: everything of every live attachment, not only the caller's part (docs/design.md, "ADD").
// commands/attach/set-up.ts runs them under the machine's lock.

import { bridgeSysctlOps, keepBridgeOps, ownMacOps, type Port } from '../../drivers/bridge.ts'
import { bridgeOps, refilledRuleOps, ruleOps, sharesRules } from '../../drivers/network.ts'
import { mergeNetworks, type SubnetSource } from '../../drivers/specs.ts'
import { gatewayLink } from '../../features/bridge-port.ts'
import { localnetOps } from '../../features/host-ports.ts'
import type { AttachmentKey, AttachmentSpec, BridgePort, NetworkSpec } from '../../model/attachment.ts'
import { bridgeMac, keyOfHostLink } from '../../model/names.ts'
import type { ObservedNamespace } from '../../model/observed.ts'
import { type Op, withoutRepeats } from '../../model/op.ts'
import { agreeOnAddresses, isOursStill, withFormerGateways } from '../ipam/bridge-addresses.ts'
import { isAbandoned, judgePlaces, overlapError, wasSetUp } from '../ipam/range-overlap.ts'
import { difference } from './difference.ts'
import { acceptingAll, earlierNetworks } from './earlier-networks.ts'
import type { NetworkFacts } from './facts.ts'
import { outcomeOf, type Plan, type PlanRun, planOf, type Stage } from './stage.ts'

/** What to set up. `own`: operations of the caller's attachment, by the look at the host. */
export interface SetUp {
  readonly network: NetworkSpec
  /** Where the subnets come from; those of leases are kept. */
  readonly subnetSource: SubnetSource
  readonly own: (shared: NetworkFacts) => readonly Op[]
  /** What the configuration says of a port, for pods of which that is not known. */
  readonly port?: BridgePort
  /** The ranges may overlap others': nothing is compared. */
  readonly mayOverlap: boolean
  /** The call's attachment, and the subnets of its addresses. */
  readonly key?: AttachmentKey
  readonly subnets?: readonly string[]
  /** Links of bridges that make room, where nobody uses them still. */
  readonly abandoned?: readonly string[]
  /** The usual plan has put the gateways on a bridge that is not the one it was. */
  readonly isOtherBridge?: boolean
}

/** A set-up: its plan, and what follows when it has ended well. */
interface SettingUp {
  readonly plan: Plan
  readonly links: Stage
  /** The network as it is then: an existing bridge keeps its MAC and MTU. */
  readonly network: NetworkSpec
  /** The network with what earlier pods of it need accepted, and all networks. */
  readonly accepting: NetworkSpec
  readonly all: readonly NetworkSpec[]
}

export interface Situation {
  readonly shared: NetworkFacts
  readonly vlans?: ReadonlyMap<string, readonly number[]> | undefined
  readonly machineId: string
}

export function needsVlans(shared: NetworkFacts, setting: SetUp): boolean {
  return (
    shared.host !== undefined &&
    linksOf(networkIn(shared, setting), shared, setting).some(({ kind }) => kind === 'vlan.add')
  )
}

/** Makes what is missing of the network. Throws CniError 108 for its bridge's address, 110 for its ranges. */
export function setUp({ shared, vlans, machineId }: Situation, setting: SetUp): SettingUp {
  const found = networkIn(shared, setting)
  const others = shared.networks.filter(({ name }) => name !== found.name)
  if (!setting.mayOverlap) requireApart({ network: found, others, shared }, setting)
  const network = withOwnMac({ network: found, others, shared }, machineId)
  const { sysctls, before, pods } = shared
  const seen = { sysctls, ...(vlans && { vlans }) }
  const ownMac = bridgeMac(network.bridge?.name ?? '', machineId)
  const removals = removalsOf({ network, others, shared }, setting.abandoned ?? [], machineId)
  const host = shared.host && without(shared.host, removals)
  const isThere = host?.links.has(network.bridge?.name ?? '')
  const macOps = network.bridge && isThere ? ownMacOps(network.bridge, machineId) : []
  const links = [...macOps, ...linksOf(network, shared, setting)]
  const earlier = earlierNetworks([...others, network], shared.made)
  // Gateways of earlier ranges, which live pods have, stand in nobody's way, as those of today do not.
  const beside = [...others, ...earlier]
  const corrections =
    host === undefined ? [] : agreeOnAddresses({ network, others: beside, before, pods, host, ownMac })
  const left = host && without(host, corrections)
  const lost = lostBridges(beside, shared)
  const wanted = withoutRepeats([...links, ...lost.flatMap((each) => bridgeOps(each, portsThere(shared)))])
  const missing = left === undefined ? wanted : difference(wanted, { host: left, ...seen }).map(({ op }) => op)
  const bridges = [network, ...lost].flatMap(({ bridge }) => bridge ?? [])
  const settings = withoutRepeats(bridges.flatMap(bridgeSysctlOps))
  const kept = withFormerGateways(network, { before, host }, corrections)
  const ops = [...removals, ...corrections, ...missing, ...settings]
  return settingUp({ network: kept, others, earlier, shared }, ops, setting.own(shared))
}

/** What `ops` take away is not there: a bridge is made, and an IPv6 address put there, anew. */
function without(host: ObservedNamespace, ops: readonly Op[]): ObservedNamespace {
  const links = new Map(host.links)
  for (const op of ops) {
    if (op.kind === 'link.del') links.delete(op.dev)
    const link = op.kind === 'addr.del' ? links.get(op.dev) : undefined
    if (op.kind !== 'addr.del' || link === undefined) continue
    links.set(op.dev, { ...link, addresses: link.addresses.filter((cidr) => cidr !== op.cidr) })
  }
  return { ...host, links }
}

/** A bridge of our making that somebody has made anew gets its MAC again: the pods know the gateway by it. */
function withOwnMac({ network, others, shared }: Around, machineId: string): NetworkSpec {
  const { bridge } = network
  const { before, host, pods } = shared
  if (bridge === undefined || host === undefined || before?.bridge?.name !== bridge.name) return network
  const ownMac = bridgeMac(bridge.name, machineId)
  const networks = [network, before, ...others]
  if (before.bridge.mac !== ownMac || !isOursStill(bridge, { networks, pods, host, ownMac })) return network
  return { ...network, bridge: { ...bridge, mac: ownMac } }
}

/** Takes off another program's bridge the gateways that the usual plan has put there; none where live pods have them. */
export function withoutGateways({ host, pods }: NetworkFacts, { network, isOtherBridge }: SetUp): Plan {
  const { bridge } = network
  const hasPods = pods.some(({ gatewayLink: link, isMade }) => isMade && link === bridge?.name)
  const there = host?.links.get(bridge?.name ?? '')?.addresses ?? []
  const put =
    bridge === undefined || bridge.gateway !== undefined || !isOtherBridge || hasPods ? [] : keepBridgeOps(bridge)
  const ops = put.flatMap((op): readonly Op[] => {
    if (op.kind !== 'addr.replace' || !there.includes(op.cidr)) return []
    const { dev, cidr } = op
    return [{ in: 'host', kind: 'addr.del', dev, cidr, why: `take ${cidr} off ${dev}` }]
  })
  const stages: readonly Stage[] = [{ id: 'gateways', run: { kind: 'batch', ops }, after: [] }]
  return planOf({ id: 'leave the bridge', because: 'it is of another program', stages })
}

function networkIn(shared: NetworkFacts, setting: SetUp): NetworkSpec {
  return asFound(mergeNetworks(shared.before, setting.network, setting.subnetSource), shared)
}

function linksOf(network: NetworkSpec, shared: NetworkFacts, { port }: SetUp): readonly Op[] {
  return bridgeOps(network, [...portsThere(shared), ...unpluggedPorts(network.name, shared, port)])
}

interface Around {
  readonly network: NetworkSpec
  readonly others: readonly NetworkSpec[]
  readonly shared: NetworkFacts
}

/** Of `networks` those whose bridge is gone while pods live that were on it. */
function lostBridges(networks: readonly NetworkSpec[], shared: NetworkFacts): readonly NetworkSpec[] {
  const needed = new Set(portsThere(shared).map(({ port }) => port?.bridge))
  return networks.filter(
    ({ bridge }) => bridge !== undefined && needed.has(bridge.name) && shared.host?.links.has(bridge.name) === false,
  )
}

interface Wanted extends Around {
  readonly earlier: readonly NetworkSpec[]
}

function settingUp(
  { network, others, earlier, shared }: Wanted,
  linkOps: readonly Op[],
  own: readonly Op[],
): SettingUp {
  const all = [...others, network, ...earlier]
  const source = { networks: all, attachments: shared.attachments, cluster: shared.cluster, opened: shared.opened }
  // Elements of other networks may overlap ours, and those of our own may be over: then the sets are filled anew.
  const { before } = shared
  const hadRules = before !== undefined && sharesRules(before)
  const rules = others.length === 0 && before === undefined ? ruleOps(source) : refilledRuleOps(source, hadRules)
  const links: Stage = { id: 'links', run: { kind: 'batch', ops: linkOps }, after: [] }
  const localnet = bridgeLocalnetOps(network, shared.attachments)
  const stages: readonly Stage[] = [
    { id: 'rules', run: { kind: 'rules', ops: rules }, after: [] },
    links,
    { id: 'own', run: { kind: 'batch', ops: own }, after: [links.id] },
    { id: 'settings', run: { kind: 'batch', ops: localnet }, after: ['rules', links.id] },
    // STATUS is to know of an nft that is too old, also where that is why the rules fail.
    ...(rules.length > 0 ? [{ id: 'nft', run: { kind: 'look', what: 'nft' }, after: [] } as const] : []),
  ]
  const plan = planOf({ id: 'set up', because: `make what network ${network.name} lacks`, stages })
  return { plan, links, network, accepting: acceptingAll(network, earlier), all }
}

/** The loopback setting of a bridge that was made again: live pods have host ports behind it. */
function bridgeLocalnetOps({ bridge }: NetworkSpec, attachments: readonly AttachmentSpec[]): readonly Op[] {
  const link = bridge && gatewayLink(bridge)
  const ports = attachments.flatMap(({ hostPorts }) => hostPorts ?? []).filter((spec) => spec.link === link)
  return ports.flatMap(localnetOps).slice(0, 1)
}

/** Whether a pod's link was there at the look and has gone with its DEL, which takes no lock: look once more then. */
export function isOvertaken({ links }: SettingUp, run: PlanRun): boolean {
  const { reason, op } = outcomeOf(run, links)?.failed ?? {}
  return reason === 'absent' && ['port.master', 'port.flags', 'vlan.add'].includes(op?.kind ?? '')
}

/** All rules of all networks, built anew after a flush, or after an overlap of networks. */
export function rebuiltRules({ networks, made, ...facts }: NetworkFacts): Plan {
  const { attachments, cluster, opened } = facts
  const source = { networks: [...networks, ...earlierNetworks(networks, made)], attachments, cluster, opened }
  return planOf({
    id: 'rebuild the rules',
    because: 'the rules were not as they should be',
    stages: [{ id: 'rules', run: { kind: 'rules', ops: refilledRuleOps(source) }, after: [] }],
  })
}

function portsThere({ attachments, host }: NetworkFacts) {
  return attachments.filter((spec) => spec.host !== undefined && host?.links.has(spec.host.name) === true)
}

/**
 * Links of the network's pods, as their aliases tell, which are on no bridge and in no record that says where they
 * belong: both have gone, so that they belong on the one that has its place. `port`: what is known of the network's
 * ports; undefined where they are none.
 */
export function unpluggedPorts(
  network: string,
  { attachments, host }: Pick<NetworkFacts, 'attachments' | 'host'>,
  port: BridgePort | undefined,
): readonly Port[] {
  const known = new Set(attachments.map((spec) => spec.host?.name))
  const links = [...(host?.links.values() ?? [])].filter(
    ({ name, alias, master }) =>
      master === undefined && !known.has(name) && keyOfHostLink(name, alias)?.network === network,
  )
  return port === undefined ? [] : links.map(({ name }) => ({ host: { name }, port }))
}

function asFound(network: NetworkSpec, { host }: NetworkFacts): NetworkSpec {
  const { bridge } = network
  const link = bridge && host?.links.get(bridge.name)
  return bridge === undefined || link === undefined
    ? network
    : { ...network, bridge: { ...bridge, mac: link.mac, mtu: link.mtu } }
}

/** Another ADD may have set up a network in the way since the ranges were looked at, or this one with another file. */
function requireApart({ network, others, shared }: Around, { key, subnets = [] }: SetUp): void {
  const isInPlace = shared.before?.bridge?.name === network.bridge?.name
  if (isInPlace && wasSetUp(network, shared.before, (name) => shared.links.has(name))) return
  const { refused } = judgePlaces({ network, others, pods: shared.pods, subnets }, key, shared.links)
  if (refused !== undefined) throw overlapError(network.name, { overlaps: refused, kept: new Set() })
}

/** Bridges in the way of the ranges, with their VLAN gateways, that nobody has begun to use since the look. */
function removalsOf({ others, shared }: Around, abandoned: readonly string[], machineId: string): readonly Op[] {
  const { host, before, pods } = shared
  if (host === undefined) return []
  const sight = { host, known: before, ownMac: (bridge: string) => bridgeMac(bridge, machineId) }
  const isStill = (link: string) => {
    const bridge = before?.bridge?.gateway?.name === link ? before.bridge.name : link
    return host.links.has(link) && isAbandoned(bridge, { others, pods }, sight)
  }
  return abandoned.filter(isStill).map((dev) => ({
    in: 'host',
    kind: 'link.del',
    dev,
    why: `remove ${dev}, which has the range and no pod`,
  }))
}
