// SPDX-License-Identifier: Apache-2.0
// Sets up everything that attachments share, for all networks: bridges with their ports, forwarding, rules, accepts. From
// the configuration and the live records, under the machine's lock. ADD calls it when its own batches show that something
// is missing; `trestle restore` runs the same without a network of its own.

import { everyElement } from '../drivers/attachment.ts'
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
import { settleAccepts } from '../features/host-accept.ts'
import { hostPorts } from '../features/host-ports.ts'
import { readCluster } from '../features/network-elements.ts'
import { vlanGatewayOps } from '../features/vlan.ts'
import { readShownTable } from '../kernel/elements.ts'
import { lookAtHost } from '../kernel/look.ts'
import {
  type Element,
  elementKey,
  isNewerVersion,
  rulesetVersion,
  type TableFamily,
  tableName,
  tableOf,
  versionOf,
} from '../kernel/nft-table.ts'
import type { Place } from '../kernel/observed.ts'
import { deleteTable, elementOps, type Op, setTable } from '../kernel/operation.ts'
import { machineId } from '../kernel/proc.ts'
import type { Machine } from '../process/machine.ts'
import { stepsToAdd } from '../process/order.ts'
import { readableText } from '../state/files.ts'
import { clusterFile, machineLockFile } from '../state/layout.ts'
import { withLock } from '../state/lock.ts'
import {
  type AttachmentRecord,
  allRecords,
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

/** What a set-up is about to do. */
export interface SetUpPlan {
  readonly networks: readonly NetworkSpec[]
  readonly linkOps: readonly Op[]
  readonly ruleOps: readonly Op[]
  readonly host: Place
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

/** Throws what the kernel or a tool has refused. */
export async function applySetUp({ linkOps, ruleOps, networks }: SetUpPlan, machine: Machine): Promise<void> {
  const { failed } = await machine.run(stepsToAdd([...linkOps, ...ruleOps]), {})
  if (failed !== undefined) throw failed.error
  await settleAccepts(machine, networks)
  markState()
}

/** Decides what is to be done, by one look. */
export async function planSetUp(
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
  const pods = specs.filter(({ id }) => by === undefined || !sameId(id, by))
  const own = wanted && decideNetwork(wanted, { before, others, live: pods, host, machineId: machineId() })
  const networks = [...others, ...(own ? [own] : [])]
  // Of another network only what has pods: an empty one gets its bridge back with its next ADD.
  const hasPods = (network: NetworkSpec) => specs.some((spec) => spec.network && isSameNetwork(spec.network, network))
  const used = networks.filter((network) => network === own || hasPods(network))
  const made = new Set<string | undefined>()
  const linkOps = used.flatMap((network) => networkOps(network, specs, host, made))
  const ruleOps = await rulesAgain(used, specs, machine)
  return { networks, linkOps, ruleOps, host, records, live }
}

/** What the network shares, but for what a stricter policy of another network on the same bridge takes out. */
export function networkElementsNow(network: NetworkSpec): readonly Element[] {
  const own = everyElement([network], [], undefined)
  if (network.ingressPolicy === undefined) return own
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
  // A bridge that is made again has lost the setting that lets 127.0.0.1 reach host ports: it is the same for each pod.
  const open = specs.filter((spec) => [name, vlanGateway?.name].includes(spec.hostPorts?.link))
  return [...ops, ...open.flatMap((spec) => hostPorts.ops?.(spec) ?? []).slice(0, 1)]
}

/** Addresses that a network of ours had before, and with forceAddress those that nobody of ours has. */
function staleAddressOps(network: NetworkSpec, bridge: BridgeSpec, host: Place): readonly Op[] {
  const known = knownNetworks().filter((each) => each.bridge?.name === bridge.name)
  const addressesOf = (each: NetworkSpec | undefined) => each?.bridge?.addresses ?? []
  const former = addressesOf(known.find((each) => isSameNetwork(each, network)))
  const others = known.filter((each) => !isSameNetwork(each, network))
  const wanted = new Set([...others, network].flatMap(addressesOf))
  const dev = bridge.vlanGateway?.name ?? bridge.name
  const addresses = host.links.get(dev)?.addresses ?? []
  const stale = addresses.filter(
    (cidr) => !wanted.has(cidr) && !cidr.startsWith('fe80:') && (bridge.forceAddress || former.includes(cidr)),
  )
  return stale.map((cidr) => {
    return { place: 'host', kind: 'address.delete', dev, cidr, tolerate: 'absent', why: `take ${cidr} off ${dev}` }
  })
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
    const version = seen?.isDormant ? undefined : versionOf(seen?.comments ?? [])
    // Of another version, switched off or emptied, sets may have other types: the table is made anew. A newer one stays.
    if (seen !== undefined && version !== rulesetVersion && !isNewerVersion(version)) ops.push(deleteTable(table))
    if (!isNewerVersion(version)) ops.push(setTable(table, hasAccept, true))
    ops.push(...elementOps(own))
  }
  return ops
}

async function seeTable(machine: Machine, table: TableFamily) {
  const output = await machine.ask({ file: 'nft', args: ['-t', 'list', 'table', table, tableName] })
  return output.code === 0 ? readShownTable(output.stdout) : undefined
}
