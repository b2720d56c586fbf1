// SPDX-License-Identifier: Apache-2.0
// Sets up everything that attachments share, for all networks: bridges, forwarding, rules, accepts, and what live pods
// have lost on the host. From the configuration and the live records, under the machine's lock. ADD calls it when its own
// batches show that something is missing; `trestle restore` is the same function without a network of its own.

import { CniError, Code } from '../cni/errors.ts'
import { everyElement, opsOf } from '../drivers/attachment.ts'
import { keepNetworkOps, makeBridgeOps, markBridge, plugOps } from '../drivers/bridge.ts'
import { ownBridgeAlias } from '../drivers/names.ts'
import {
  type AttachmentId,
  type BridgeSpec,
  isSameNetwork,
  type NetworkSpec,
  type Spec,
  sameId,
} from '../drivers/spec.ts'
import { settleAccepts, unsettledAccepts } from '../features/host-accept.ts'
import { readCluster } from '../features/network-elements.ts'
import { vlanGatewayOps } from '../features/vlan.ts'
import { differencesOf } from '../kernel/batch.ts'
import { elementKey, readShownTable } from '../kernel/elements.ts'
import { lookAtHost, lookAtQueues, lookAtTable } from '../kernel/look.ts'
import { CommandError } from '../kernel/messages.ts'
import { type Element, isNewerVersion, type TableFamily, tableName, tableOf, versionOf } from '../kernel/nft-table.ts'
import type { ObservedQueue, Place } from '../kernel/observed.ts'
import { deleteTable, elementOps, type Op, setLink, setTable } from '../kernel/operation.ts'
import { machineId, readSysctl } from '../kernel/proc.ts'
import type { Machine } from '../process/machine.ts'
import { stepsToAdd } from '../process/order.ts'
import { readableText } from '../state/files.ts'
import { clusterFile, machineLockFile, requireStateIfThere } from '../state/layout.ts'
import { withLock } from '../state/lock.ts'
import {
  type AttachmentRecord,
  allRecords,
  findFinished,
  isDead,
  knownNetworks,
  readNetwork,
  sweepState,
  writeNetwork,
} from '../state/records.ts'
import { markState, recoverIfLost } from '../state/recover.ts'
import type { Context } from './context.ts'
import { decideNetwork, meets, mergeNetwork } from './decide-network.ts'
import { openGuards, removeShared } from './remove-network.ts'

/** What is not as it was set up. */
export interface SetUpReport {
  /** In words, everything once. */
  readonly missing: readonly string[]
  readonly differences: readonly { readonly op: Op; readonly found: readonly string[] }[]
  /** Accepts in other firewalls. */
  readonly accepts: readonly string[]
  /** Live pods whose link on the host is gone: nothing gives it back. */
  readonly lost: readonly AttachmentRecord[]
  /** Pods that are gone: a DEL or `trestle gc` removes what is left of them. */
  readonly ended: readonly AttachmentRecord[]
}

/** What a set-up is about to do. */
interface SetUpPlan {
  readonly networks: readonly NetworkSpec[]
  readonly linkOps: readonly Op[]
  readonly ruleOps: readonly Op[]
  readonly host: Place
  readonly queues: ReadonlyMap<string, ObservedQueue>
  readonly records: readonly AttachmentRecord[]
  readonly live: readonly AttachmentRecord[]
}

/**
 * Sets up `wanted` with everything else, and writes it down. Returns it as it is there: a bridge that another program
 * made keeps its MAC and MTU. `by`: the attachment that asks, which is no pod of it yet. Throws CniError 108 for a bridge
 * that cannot be used, 110 for ranges.
 */
export async function setUpNetwork(wanted: NetworkSpec, by: AttachmentId, context: Context): Promise<NetworkSpec> {
  const purpose = `set up what the attachments of network ${wanted.name} share`
  return await withLock({ file: machineLockFile(), purpose, deadline: context.deadline }, async () => {
    const { machine } = context
    sweepState()
    await recoverIfLost(machine)
    await makeRoom(wanted, by, machine)
    const plan = await planSetUp({ wanted, by }, machine)
    await applySetUp(plan, machine)
    const { networks } = plan
    const own = networks.find((network) => isSameNetwork(network, wanted)) ?? wanted
    writeNetwork(own)
    return own
  })
}

/** The same for all that is written down, where something is missing. `isDry`: changes nothing. */
export async function restoreNetworks(context: Context, isDry = false): Promise<SetUpReport> {
  const lock = { file: machineLockFile(), purpose: 'restore all networks', deadline: context.deadline }
  const hasState = requireStateIfThere()
  const restore = async () => {
    const { machine } = context
    if (!isDry) {
      sweepState()
      await recoverIfLost(machine)
    }
    const plan = await planSetUp(undefined, machine)
    const differences = await differencesIn(plan, machine)
    const accepts = await unsettledAccepts(machine, plan.networks)
    const missing = [...new Set([...differences.flatMap(({ found }) => found), ...accepts])]
    if (missing.length > 0 && !isDry) await applySetUp(plan, machine)
    const lost = plan.live.filter(
      ({ id, spec }) =>
        findFinished(id) !== undefined && spec?.host !== undefined && !plan.host.links.has(spec.host.name),
    )
    return { missing, differences, accepts, lost, ended: plan.records.filter(isDead) }
  }
  // A lock would make the directory.
  return isDry && !hasState ? await restore() : await withLock(lock, restore)
}

/** Networks in the way that have no pods go first: what has none is changed at once. */
async function makeRoom(wanted: NetworkSpec, by: AttachmentId, machine: Machine): Promise<void> {
  const live = liveRecords(allRecords()).filter(({ id }) => !sameId(id, by))
  const isUsed = (network: NetworkSpec) =>
    live.some(({ spec }) => spec?.network !== undefined && isSameNetwork(spec.network, network))
  const isInTheWay = (network: NetworkSpec) =>
    isSameNetwork(network, wanted) ? isMoved(network, wanted, machine) : meets(network, wanted)
  const gone = knownNetworks().filter((network) => !isUsed(network) && isInTheWay(network))
  const errors = gone.length === 0 ? [] : await removeShared(gone, machine)
  if (errors[0] !== undefined) throw errors[0]
}

/** Whether the network is another one by now, or its bridge was removed. */
function isMoved({ mode, vlan, bridge }: NetworkSpec, wanted: NetworkSpec, machine: Machine): boolean {
  const isGone = bridge !== undefined && !machine.linkExists(bridge.name)
  return mode !== wanted.mode || vlan !== wanted.vlan || bridge?.name !== wanted.bridge?.name || isGone
}

function liveRecords(records: readonly AttachmentRecord[]): readonly AttachmentRecord[] {
  return records.filter((record) => record.spec !== undefined && record.isLeaving === undefined && !isDead(record))
}

async function applySetUp(plan: SetUpPlan, machine: Machine): Promise<void> {
  await runSetUp(machine, [...plan.linkOps, ...plan.ruleOps])
  await settleAccepts(machine, plan.networks)
  markState()
}

/** Decides what is to be done, by one look. */
async function planSetUp(
  asked: { wanted: NetworkSpec; by: AttachmentId } | undefined,
  machine: Machine,
): Promise<SetUpPlan> {
  const { wanted, by } = asked ?? {}
  const records = allRecords()
  const known = knownNetworks(records)
  const isWanted = (network: NetworkSpec) => wanted !== undefined && isSameNetwork(network, wanted)
  const before = known.find(isWanted)
  const others = known.filter((network) => !isWanted(network))
  const live = liveRecords(records)
  const host = await lookAtHost(machine, 'all', true)
  const specs = live.flatMap(({ spec }) => spec ?? [])
  // The interface of a chained ADD at work is there before its limits are.
  const settled = live.flatMap(({ id, spec }) => (spec?.chained && !findFinished(id) ? [] : (spec ?? [])))
  const pods = specs.filter(({ id }) => by === undefined || !sameId(id, by))
  const own = wanted && decideNetwork(wanted, { before, others, live: pods, host, machineId: machineId() })
  const networks = [...others, ...(own ? [own] : [])]
  // Of another network only what has pods: an empty one gets its bridge back with its next ADD.
  const used = networks.filter(
    (network) =>
      network === own || specs.some((spec) => spec.network !== undefined && isSameNetwork(spec.network, network)),
  )
  const made = new Set<string | undefined>()
  const queues = await queuesOf(specs, host, machine)
  const linkOps = [
    ...used.flatMap((network) => networkOps(network, specs, host, made)),
    ...missingHostOps(settled, host, queues),
  ]
  const ruleOps = await rulesAgain(used, specs, machine)
  return { networks, linkOps, ruleOps, host, queues, records, live }
}

/** What does not hold of links, settings and rules. */
async function differencesIn({ linkOps, ruleOps, host, queues }: SetUpPlan, machine: Machine) {
  const keys = linkOps.flatMap((op) => (op.kind === 'sysctl.set' ? [op.key] : []))
  const hostSysctls = new Map(keys.map((key) => [key, readSysctl(key)]))
  const seen = await Promise.all(
    (['inet', 'bridge'] as const).map(async (family) => [family, await lookAtTable(machine, family)] as const),
  )
  const tables = new Map(seen.flatMap(([family, table]) => (table === undefined ? [] : [[family, table] as const])))
  const observed = { host, hostSysctls, tables, queues }
  const all = [...linkOps, ...ruleOps].map((op) => ({ op, found: differencesOf(op, observed) }))
  return all.filter(({ found }) => found.length > 0)
}

/** What the network shares, but for what a stricter policy of another network on the same bridge takes out. */
export function networkElementsNow(network: NetworkSpec): readonly Element[] {
  const own = everyElement([network], [], undefined)
  if (network.ingressPolicy?.policy !== 'same-bridge') return own
  const others = knownNetworks([]).filter((each) => !isSameNetwork(each, network))
  const all = new Set(everyElement([...others, network], [], undefined).map(elementKey))
  return own.filter((element) => all.has(elementKey(element)))
}

/** Whether the network stands as it is wanted, by what was written down when it was set up. */
export function isSetUp(wanted: NetworkSpec): boolean {
  const known = readNetwork(wanted)
  if (known === undefined) return false
  const { format: _, ...written } = known as NetworkSpec & { format?: number }
  return JSON.stringify(mergeNetwork(wanted, known)) === JSON.stringify(written)
}

/** Bridge and forwarding of a network, and the ports of its pods. `made`: bridges that another network makes already. */
function networkOps(
  network: NetworkSpec,
  specs: readonly Spec[],
  host: Place,
  made: Set<string | undefined>,
): readonly Op[] {
  const { bridge } = network
  if (bridge === undefined) return keepNetworkOps(network)
  const { name, vlanGateway, isForeign } = bridge
  const ops: Op[] = []
  const link = host.links.get(name)
  if (link === undefined && !made.has(name)) ops.push(...makeBridgeOps(bridge))
  if (link !== undefined && !isForeign && link.alias !== ownBridgeAlias) ops.push(markBridge(name))
  const hasGateway = link !== undefined && host.links.has(vlanGateway?.name ?? '')
  if (vlanGateway !== undefined && !hasGateway && !made.has(vlanGateway.name)) ops.push(...vlanGatewayOps(bridge))
  made.add(name).add(vlanGateway?.name)
  ops.push(...staleAddressOps(network, bridge, host), ...keepNetworkOps(network))
  for (const spec of specs) {
    const end = host.links.get(spec.host?.name ?? '')
    if (spec.port?.bridge === name && end !== undefined && (end.master !== name || link === undefined))
      ops.push(...plugOps(spec))
  }
  return ops
}

/** Addresses that a network of ours had before, and with forceAddress those that nobody of ours has. */
function staleAddressOps(network: NetworkSpec, bridge: BridgeSpec, host: Place): readonly Op[] {
  const known = knownNetworks().filter((each) => each.bridge?.name === bridge.name)
  const wanted = new Set(
    [...known.filter((each) => !isSameNetwork(each, network)), network].flatMap((each) => each.bridge?.addresses ?? []),
  )
  const former = known.filter((each) => isSameNetwork(each, network)).flatMap((each) => each.bridge?.addresses ?? [])
  const dev = bridge.vlanGateway?.name ?? bridge.name
  const addresses = host.links.get(dev)?.addresses ?? []
  const stale = addresses.filter(
    (cidr) => !wanted.has(cidr) && !cidr.startsWith('fe80:') && (bridge.forceAddress || former.includes(cidr)),
  )
  return stale.map((cidr) => ({
    place: 'host',
    kind: 'address.delete',
    dev,
    cidr,
    tolerate: 'absent',
    why: `take ${cidr} off ${dev}`,
  }))
}

/** The queues of links with a limit that are there. */
async function queuesOf(specs: readonly Spec[], host: Place, machine: Machine) {
  const limited = specs.flatMap(({ bandwidth, host: end, chained }) =>
    bandwidth === undefined || (end === undefined && chained === undefined)
      ? []
      : [bandwidth.link, ...(bandwidth.egress ? [bandwidth.egress.ifb] : [])],
  )
  const names = limited.filter((name) => host.links.has(name))
  return names.length === 0 ? new Map<string, ObservedQueue>() : await lookAtQueues(machine, names)
}

/** What live pods have lost on the host: settings, addresses and routes of their links, and queues. */
function missingHostOps(
  specs: readonly Spec[],
  host: Place,
  queues: ReadonlyMap<string, ObservedQueue>,
): readonly Op[] {
  const there = specs.filter(({ host: end, chained, kept }) => {
    const link = host.links.get(end?.name ?? chained?.hostLink ?? '')
    // A chained link of the same name may be another pod's by now.
    return kept === undefined && link !== undefined && (end !== undefined || link.index === chained?.hostIndex)
  })
  const ops: Op[] = []
  for (const spec of there) {
    // A link that is down takes no route, and others may have set its MAC: its own line comes first.
    const { name: dev = '', mac } = spec.host ?? {}
    const link = host.links.get(dev) ?? { mac, up: true }
    const set = { ...(mac !== undefined && link.mac !== mac ? { mac } : {}), ...(link.up ? {} : { up: true }) }
    if (Object.keys(set).length > 0) ops.push(setLink('host', dev, set, `set ${dev} as it was made`, 'absent'))
    for (const op of opsOf(spec)) {
      if (op.place !== 'host' || 'element' in op || op.kind === 'veth.add') continue
      if (op.kind === 'sysctl.set' || differencesOf(op, { host, queues }).length > 0)
        ops.push({ ...op, tolerate: 'absent' })
    }
  }
  return ops
}

/** All rules and elements, in one transaction that empties the sets first: nothing of anybody who is gone stays. */
async function rulesAgain(
  networks: readonly NetworkSpec[],
  specs: readonly Spec[],
  machine: Machine,
): Promise<readonly Op[]> {
  const cluster = readCluster(readableText(clusterFile()) ?? '')
  const elements = [...everyElement(networks, specs, cluster), ...openGuards(networks)]
  const hasAccept = networks.some(({ accept }) => accept !== undefined)
  const ops: Op[] = []
  for (const table of ['inet', 'bridge'] as const) {
    const own = elements.filter(({ set }) => tableOf(set) === table)
    const seen = await seeTable(machine, table)
    if (own.length === 0 && seen === undefined) continue
    // A table that is switched off has no rules in force; a newer version's rules stay.
    if (seen?.isDormant) ops.push(deleteTable(table))
    const isNewer = seen !== undefined && !seen.isDormant && isNewerVersion(versionOf(seen.comments))
    if (!isNewer) ops.push(setTable(table, hasAccept, true))
    ops.push(...elementOps(own))
  }
  return ops
}

async function seeTable(machine: Machine, table: TableFamily) {
  const output = await machine.ask({ file: 'nft', args: ['-t', 'list', 'table', table, tableName] })
  return output.code === 0 ? readShownTable(output.stdout) : undefined
}

async function runSetUp(machine: Machine, ops: readonly Op[]): Promise<void> {
  const outcome = await machine.run(stepsToAdd(ops), {})
  if (outcome.failed === undefined) return
  const { error, op, reason } = outcome.failed
  const table = op !== undefined && 'table' in op ? op.table : undefined
  // A table with a set of another type under a name of ours: replaced in one transaction.
  if (table === undefined || !(error instanceof CommandError)) throw bridgeError(op, reason, error)
  const replaced = ops.flatMap((each): readonly Op[] => {
    const isOwn = each.kind === 'table.set' && each.table === table
    return isOwn ? [deleteTable(table), each] : [each]
  })
  const again = await machine.run(stepsToAdd(replaced), {})
  if (again.failed !== undefined) throw again.failed.error
}

function bridgeError(op: Op | undefined, reason: string | undefined, error: CniError): CniError {
  if (op?.kind === 'bridge.add' && op.vlanFiltering && reason === 'invalid') {
    const details = `${error.details ?? ''}\nthe kernel lacks CONFIG_BRIDGE_VLAN_FILTERING: use a bridge for each VLAN, without "vlan" and "vlanTrunk"`
    return new CniError(Code.commandFailed, 'command-failed', error.message, { details, cause: error })
  }
  if (reason !== 'ipv6-off' || op === undefined || !('dev' in op)) return error
  const details = `${error.details ?? ''}\nrun sysctl -w net.ipv6.conf.${op.dev}.disable_ipv6=0`
  return new CniError(Code.commandFailed, 'command-failed', error.message, { details, cause: error })
}
