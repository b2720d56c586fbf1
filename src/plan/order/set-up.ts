// SPDX-License-Identifier: Apache-2.0
// The order in which what attachments share is set up and repaired: bridge, forwarding, rules. Under the machine's
// lock, from state and from what the kernel has: everything of every live attachment, not only the caller's part
// (docs/design.md, "ADD").

import { difference } from '../difference/difference.ts'
import { overlapError } from '../ipam/overlap-error.ts'
import { isAbandoned, judgePlaces, wasSetUp } from '../ipam/range-overlap.ts'
import { agreeOnAddresses, withFormerGateways } from '../link/bridge-addresses.ts'
import type { AttachmentKey, AttachmentSpec, BridgePort, NetworkSpec } from '../model/attachment.ts'
import { bridgeMac, keyOfHostLink } from '../model/names.ts'
import type { Op } from '../model/op.ts'
import { bridgeSysctlOps, type Port } from '../modes/bridge.ts'
import { mergeNetworks } from '../modes/build-spec.ts'
import { bridgeOps } from '../modes/network.ts'
import { refilledRuleOps, ruleOps, sharesRules } from '../modes/network-rules.ts'
import { acceptingAll, earlierNetworks } from '../recovery/earlier-networks.ts'
import type { AddFacts, NetworkFacts } from './facts.ts'
import { type Failure, failureIn, type Plan, type PlanRun, planOf, type Step } from './stage.ts'

/** How often everything is looked at: of pods that go, a few at once are many. */
const mostLooks = 5

/** What to set up. `own`: operations of the caller's attachment. */
export interface SetUp {
  readonly network: NetworkSpec
  /** Whether the configuration names the subnets; else they are learnt, and kept. */
  readonly namesSubnets: boolean
  readonly own: readonly Op[]
  /** What the configuration says of a port, for pods of which that is not known. */
  readonly port?: BridgePort
  /** The ranges may overlap others': nothing is compared. */
  readonly mayOverlap: boolean
  /** The call's attachment, and the subnets of its addresses. */
  readonly key?: AttachmentKey
  readonly subnets?: readonly string[]
  /** Links of bridges that make room, where nobody uses them still. */
  readonly abandoned?: readonly string[]
}

type SetUpFacts = Pick<AddFacts, 'learnt' | 'runs' | 'machineId'>

/** `unlessMade`: of many first ADDs one sets the network up. `spec`: of the call; its ports may be a live pod's. */
interface HostLook {
  readonly unlessMade?: boolean
  readonly spec?: AttachmentSpec
  readonly abandoned?: readonly string[]
}

/** The look that a set-up begins with. */
export function lookAtHost(network: NetworkSpec, { unlessMade = false, spec, abandoned = [] }: HostLook): Plan {
  const run = { kind: 'look', what: 'host', network, unlessMade, abandoned, ...(spec && { spec }) } as const
  return {
    id: 'look at the host',
    because: `set up what the attachments of network ${network.name} share`,
    lock: 'machine',
    stages: [{ id: 'host', run, after: [] }],
  }
}

/**
 * After the look: what is missing. Throws CniError 108 for an address of another network on the bridge, 110 for a
 * network in the way.
 */
export function setUp(facts: SetUpFacts, setting: SetUp): Plan {
  const { shared, vlans } = facts.learnt
  if (shared === undefined) return lookAtHost(setting.network, {})
  const network = asFound(mergeNetworks(shared.before, setting.network, setting.namesSubnets), shared)
  const others = shared.networks.filter(({ name }) => name !== network.name)
  if (!setting.mayOverlap) requireApart({ network, others, shared }, setting)
  const links = bridgeOps(network, [...portsThere(shared), ...unpluggedPorts(network.name, shared, setting.port)])
  // VLANs of ports are looked at where there are any.
  const looksAtVlans = shared.host !== undefined && links.some(({ kind }) => kind === 'vlan.add')
  if (looksAtVlans && facts.runs.at(-1)?.plan.id !== 'look at VLANs') return lookAtVlans(network)
  const { host, sysctls, before, pods } = shared
  const seen = { sysctls, ...(looksAtVlans && vlans ? { vlans } : {}) }
  const ownMac = bridgeMac(network.bridge?.name ?? '', facts.machineId)
  const corrections = host === undefined ? [] : agreeOnAddresses({ network, others, before, pods, host, ownMac })
  const missing = host === undefined ? links : difference(links, { host, ...seen }).map(({ op }) => op)
  const settings = network.bridge === undefined ? [] : bridgeSysctlOps(network.bridge)
  const removals = removalsOf({ network, others, shared }, setting.abandoned ?? [], facts.machineId)
  const kept = withFormerGateways(network, { before, host }, corrections)
  const ops = [...removals, ...corrections, ...missing, ...settings]
  return settingUp({ network: kept, others, shared }, ops, setting.own)
}

interface Around {
  readonly network: NetworkSpec
  readonly others: readonly NetworkSpec[]
  readonly shared: NetworkFacts
}

function settingUp({ network, others, shared }: Around, links: readonly Op[], own: readonly Op[]): Plan {
  const earlier = earlierNetworks([...others, network], shared.made)
  const source = {
    networks: [...others, network, ...earlier],
    attachments: shared.attachments,
    cluster: shared.cluster,
  }
  // Elements of other networks may overlap ours, and those of our own may be over: then the sets are filled anew.
  const hadRules = shared.before !== undefined && sharesRules(shared.before)
  const rules = others.length === 0 && !hadRules ? ruleOps(source) : refilledRuleOps(source, hadRules)
  const made = ['links', 'own', 'rules']
  return planOf({
    id: 'set up',
    because: `make what network ${network.name} lacks`,
    lock: 'machine',
    stages: [
      { id: 'rules', run: { kind: 'rules', ops: rules }, after: [] },
      { id: 'links', run: { kind: 'batch', ops: links }, after: [] },
      { id: 'own', run: { kind: 'batch', ops: own }, after: ['links'] },
      // STATUS is to know of an nft that is too old, also where that is why the rules fail.
      ...(rules.length > 0 ? [{ id: 'nft', run: { kind: 'look', what: 'nft' }, after: [] } as const] : []),
      {
        id: 'accepts',
        run: { kind: 'state', what: 'accepts', accepting: acceptingAll(network, earlier), all: source.networks },
        after: [...made, ...(rules.length > 0 ? ['nft'] : [])],
      },
      // Last: a set-up that was cut short is not taken for a finished one by the next ADD.
      { id: 'network', run: { kind: 'state', what: 'network', network }, after: ['accepts'] },
    ],
  })
}

function lookAtVlans({ name }: NetworkSpec): Plan {
  return {
    id: 'look at VLANs',
    because: `see which VLANs the ports of network ${name} have`,
    lock: 'machine',
    stages: [{ id: 'vlans', run: { kind: 'look', what: 'vlans' }, after: [] }],
  }
}

/** A pod's link was there at the look and has gone with its DEL, which takes no lock; it is looked at once more. */
export function isOvertaken(facts: Pick<AddFacts, 'runs'>, run: PlanRun, failed: Failure): boolean {
  const isOfLinks = run.outcomes.some(({ id, failed: each }) => id === 'links' && each === failed)
  const isGone = failed.reason === 'absent' && ['port.master', 'port.flags', 'vlan.add'].includes(failed.op?.kind ?? '')
  return isOfLinks && isGone && facts.runs.filter(({ plan }) => plan.id === 'set up').length < mostLooks
}

/** The network as the last set-up made it: an existing bridge keeps its MAC and MTU. Undefined where there was none. */
export function networkSetUp(runs: readonly PlanRun[]): NetworkSpec | undefined {
  const last = runs.findLast(({ plan }) => plan.id === 'set up')
  return last?.plan.stages.flatMap(({ run }) =>
    run.kind === 'state' && run.what === 'network' ? [run.network] : [],
  )[0]
}

/** All rules of all networks, built anew after a flush, or after an overlap of networks. */
export function rebuiltRules({ learnt }: Pick<AddFacts, 'learnt'>): Plan {
  const { networks = [], made = [], attachments = [], cluster } = learnt.shared ?? {}
  const source = { networks: [...networks, ...earlierNetworks(networks, made)], attachments, cluster }
  return planOf({
    id: 'rebuild the rules',
    because: 'the rules were not as they should be',
    lock: 'machine',
    stages: [
      { id: 'rules', run: { kind: 'rules', ops: refilledRuleOps(source) }, after: [] },
      { id: 'accepts', run: { kind: 'state', what: 'accepts of all' }, after: ['rules'] },
    ],
  })
}

/** The look before the rules are built anew. `spec`: of the call, where it has one. */
export function lookAtRules(spec: AttachmentSpec | undefined): Plan {
  return {
    id: 'look at the rules',
    because: 'the rules are not as they should be',
    lock: 'machine',
    stages: [{ id: 'rules', run: { kind: 'look', what: 'rules', ...(spec && { spec }) }, after: [] }],
  }
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
  if (isInPlace && wasSetUp(network, shared.before)) return
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

/** The order of a set-up by itself, for attachments that are there. The result is the network as it is then. */
export function nextOfSetUp(facts: SetUpFacts & { readonly setting: SetUp }): Step<NetworkSpec> {
  const last = facts.runs.at(-1)
  const failed = last && failureIn(last)
  if (last === undefined) return lookAtHost(facts.setting.network, {})
  if (failed !== undefined)
    return isOvertaken(facts, last, failed) ? lookAtHost(facts.setting.network, {}) : failed.error
  const made = networkSetUp(facts.runs)
  return last.plan.id === 'set up' && made !== undefined ? { result: made } : setUp(facts, facts.setting)
}

/** The order in which the rules of all networks are built anew by themselves. */
export function nextOfRules(facts: SetUpFacts): Step<undefined> {
  const last = facts.runs.at(-1)
  if (last === undefined) return lookAtRules(undefined)
  const failed = failureIn(last)
  if (failed !== undefined) return failed.error
  return last.plan.id === 'look at the rules' ? rebuiltRules(facts) : { result: undefined }
}
