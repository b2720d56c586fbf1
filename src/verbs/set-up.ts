// SPDX-License-Identifier: Apache-2.0
// Sets up everything that attachments share, for all networks: bridges, forwarding, rules, accepts, and what live pods
// have lost on the host. From the configuration and the live records, under the machine's lock. ADD calls it when its own
// batches show that something is missing; `trestle restore` is the same function without a network of its own.

import { asPrefix, contains, familyOf, isSubnet, overlaps, toCidr } from '../cni/addresses.ts'
import { CniError, Code } from '../cni/errors.ts'
import { opsOf } from '../drivers/attachment.ts'
import { keepNetworkOps, makeBridgeOps, markBridge, plugOps } from '../drivers/bridge.ts'
import { everyElement } from '../drivers/every-element.ts'
import { bridgeMac, isPodLinkName, ownBridgeAlias } from '../drivers/names.ts'
import { type BridgeSpec, isSameNetwork, type NetworkSpec, type Spec } from '../drivers/spec.ts'
import { unique } from '../drivers/subnets.ts'
import { missingAccepts, settleAccepts } from '../features/host-accept.ts'
import { readCluster } from '../features/network-elements.ts'
import { vlanGatewayOps } from '../features/vlan.ts'
import { differencesOf } from '../kernel/batch.ts'
import { readShownTable } from '../kernel/elements.ts'
import { lookAtHost, lookAtQueues, lookAtTable } from '../kernel/look.ts'
import { CommandError } from '../kernel/messages.ts'
import { isNewerVersion, type TableFamily, tableName, tableOf, versionOf } from '../kernel/nft-table.ts'
import type { ObservedLink, ObservedQueue, Place } from '../kernel/observed.ts'
import { elementOps, mainTable, type Op } from '../kernel/operation.ts'
import { machineId, readSysctl } from '../kernel/proc.ts'
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
  writeNetwork,
} from '../state/records.ts'
import { isStateLost, markState, recoverLostState } from '../state/recover.ts'
import type { Context } from './context.ts'
import { openGuards, removeBridges } from './remove-network.ts'

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
  /** Bridges of ours that no network has any more. */
  readonly unused: readonly BridgeSpec[]
}

/**
 * Sets up `wanted` with everything else, and writes it down. Returns it as it is there: a bridge that another program
 * made keeps its MAC and MTU. Throws CniError 108 for a bridge that cannot be used, 110 for ranges.
 */
export async function setUpNetwork(wanted: NetworkSpec, context: Context): Promise<NetworkSpec> {
  const purpose = `set up what the attachments of network ${wanted.name} share`
  return await withLock({ file: machineLockFile(), purpose, deadline: context.deadline }, async () => {
    const { networks } = await setUpAll(wanted, context)
    const own = networks.find((network) => isSameNetwork(network, wanted)) ?? wanted
    writeNetwork(own)
    return own
  })
}

/** The same for all that is written down, where something is missing. `isDry`: changes nothing. */
export async function restoreNetworks(context: Context, isDry = false): Promise<SetUpReport> {
  const lock = { file: machineLockFile(), purpose: 'restore all networks', deadline: context.deadline }
  return await withLock(lock, async () => {
    const { machine } = context
    if (isStateLost() && !isDry) await recoverLostState(machine)
    const plan = await planSetUp(undefined, machine)
    const differences = await differencesIn(plan, machine)
    const accepts = plan.networks.some(({ accept }) => accept !== undefined) ? await missingAccepts(machine) : []
    const missing = [...new Set([...differences.flatMap(({ found }) => found), ...accepts])]
    if (missing.length > 0 && !isDry) await applySetUp(plan, machine)
    const lost = plan.live.filter(({ spec }) => spec?.host !== undefined && !plan.host.links.has(spec.host.name))
    return { missing, differences, accepts, lost, ended: plan.records.filter(isDead) }
  })
}

async function setUpAll(wanted: NetworkSpec, { machine }: Context): Promise<SetUpPlan> {
  if (isStateLost()) await recoverLostState(machine)
  const plan = await planSetUp(wanted, machine)
  await applySetUp(plan, machine)
  return plan
}

async function applySetUp(plan: SetUpPlan, machine: Machine): Promise<void> {
  if (plan.unused.length > 0) await removeBridges(plan.unused, machine)
  await runSetUp(machine, [...plan.linkOps, ...plan.ruleOps])
  await settleAccepts(machine, plan.networks)
  markState()
}

/** Decides what is to be done, by one look. */
async function planSetUp(wanted: NetworkSpec | undefined, machine: Machine): Promise<SetUpPlan> {
  const records = allRecords()
  const known = knownNetworks(records)
  const isWanted = (network: NetworkSpec) => wanted !== undefined && isSameNetwork(network, wanted)
  const before = known.find(isWanted)
  const others = known.filter((network) => !isWanted(network))
  const live = records.filter(
    (record) => record.spec !== undefined && record.isLeaving === undefined && !isDead(record),
  )
  const host = await lookAtHost(machine, 'all', true)
  const own = wanted && decideNetwork(wanted, before, { live, others, host })
  const networks = [...others, ...(own ? [own] : [])]
  const specs = live.flatMap(({ spec }) => spec ?? [])
  // Of another network only what has pods: an empty one gets its bridge back with its next ADD.
  const used = networks.filter(
    (network) =>
      network === own || specs.some((spec) => spec.network !== undefined && isSameNetwork(spec.network, network)),
  )
  const made = new Set<string | undefined>()
  const queues = await queuesOf(specs, host, machine)
  const linkOps = [
    ...used.flatMap((network) => networkOps(network, specs, host, made)),
    ...missingHostOps(specs, host, queues),
  ]
  const ruleOps = await rulesAgain(used, specs, machine)
  return { networks, linkOps, ruleOps, host, queues, records, live, unused: unusedBridges(before, own, networks, host) }
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

/** The network as it is to be: `wanted`, with what was learned before. */
export function mergeNetwork(wanted: NetworkSpec, known: NetworkSpec | undefined): NetworkSpec {
  if (known === undefined || known.kept !== undefined || known.bridge?.name !== wanted.bridge?.name) return wanted
  if (!wanted.isLearned) {
    // A pod with host ports asks for it, and has it still when one without comes.
    const hairpin = wanted.ranges.filter((range) => [...known.hairpin, ...wanted.hairpin].includes(range))
    return { ...wanted, hairpin }
  }
  const union = (a: readonly string[] = [], b: readonly string[] = []) => unique([...a, ...b])
  const { bridge, masquerade, accept } = wanted
  return {
    ...wanted,
    ranges: union(known.ranges, wanted.ranges),
    gateways: union(known.gateways, wanted.gateways),
    forwarding: [...new Set([...known.forwarding, ...wanted.forwarding])].sort(),
    hairpin: union(known.hairpin, wanted.hairpin),
    ...(bridge ? { bridge: { ...bridge, addresses: union(known.bridge?.addresses, bridge.addresses) } } : {}),
    ...(masquerade
      ? {
          masquerade: {
            sources: union(known.masquerade?.sources, masquerade.sources),
            keep: union(known.masquerade?.keep, masquerade.keep),
          },
        }
      : {}),
    ...(accept
      ? {
          accept: {
            ...accept,
            subnets: union(known.accept?.subnets, accept.subnets),
            to: union(known.accept?.to, accept.to),
            from: union(known.accept?.from, accept.from),
          },
        }
      : {}),
  }
}

/** Whether the network stands as it is wanted, by what was written down when it was set up. */
export function isSetUp(wanted: NetworkSpec): boolean {
  const known = readNetwork(wanted)
  if (known === undefined) return false
  const { format: _, ...written } = known as NetworkSpec & { format?: number }
  return JSON.stringify(mergeNetwork(wanted, known)) === JSON.stringify(written)
}

interface Around {
  readonly live: readonly AttachmentRecord[]
  readonly others: readonly NetworkSpec[]
  readonly host: Place
}

/** Compares with the last set-up and with the node. Throws CniError 108 or 110. */
function decideNetwork(wanted: NetworkSpec, before: NetworkSpec | undefined, around: Around): NetworkSpec {
  if (before !== undefined && before.kept === undefined) refuseChange(wanted, before, around.live)
  if (!wanted.allowOverlap) refuseOverlap(wanted, before, around)
  const merged = mergeNetwork(wanted, before)
  return merged.bridge === undefined
    ? merged
    : { ...merged, bridge: decideBridge(merged, merged.bridge, before, around) }
}

/** What goes or changes and has pods is refused; what is new is added, and what has no pods is changed at once. */
function refuseChange(wanted: NetworkSpec, before: NetworkSpec, live: readonly AttachmentRecord[]): void {
  const pods = live.filter(({ spec }) => spec?.network !== undefined && isSameNetwork(spec.network, before))
  const inRange = (range: string) =>
    pods.filter(({ spec }) =>
      spec?.addresses.some(
        ({ address }) =>
          familyOf(address) === familyOf(range) &&
          contains(toCidr(range), { ...toCidr(address), prefixLength: familyOf(address) === 4 ? 32 : 128 }),
      ),
    )
  const refuse = (what: string, count: number) => {
    const message = `network ${wanted.name} is set up with ${what}, with ${count} ${count === 1 ? 'pod' : 'pods'}`
    throw new CniError(Code.rangeConflict, 'network-changed', message, {
      details:
        'a network does not change under its pods: put the former configuration back, or drain the node and delete its remaining pods',
    })
  }
  if (before.mode !== wanted.mode && pods.length > 0) refuse(`mode ${before.mode}, not ${wanted.mode}`, pods.length)
  if (before.bridge?.name !== wanted.bridge?.name && pods.length > 0)
    refuse(`bridge ${before.bridge?.name}, not ${wanted.bridge?.name}`, pods.length)
  if (before.vlan !== wanted.vlan && pods.length > 0)
    refuse(
      `VLAN ${before.vlan} (${before.bridge?.vlanGateway?.name ?? before.bridge?.name}), not ${wanted.vlan}`,
      pods.length,
    )
  if (wanted.isLearned || before.isLearned) return
  for (const range of before.ranges) {
    const count = inRange(range).length
    if (!wanted.ranges.includes(range) && count > 0) refuse(`the range ${range}`, count)
  }
  for (const gateway of before.gateways) {
    const isOther = wanted.gateways.length > 0 && !wanted.gateways.includes(gateway)
    const count = inRange(gateway).length
    if (isOther && count > 0) refuse(`the gateway ${gateway}`, count)
  }
}

/** Ranges are compared where the host has their gateways, or routes to each pod. */
function placedRanges(network: NetworkSpec): readonly string[] {
  return network.mode === 'ptp' || network.gateways.length > 0 ? network.ranges : []
}

/** Refuses a new range that meets an address of another link or a range of another network. Throws CniError 110. */
function refuseOverlap(wanted: NetworkSpec, before: NetworkSpec | undefined, { others, host }: Around): void {
  const placed = placedRanges(wanted)
  const fresh =
    before === undefined || placedRanges(before).length === 0
      ? placed
      : placed.filter((range) => !before.ranges.includes(range))
  const refuse = (range: string, what: string, cure: string) => {
    throw new CniError(Code.rangeConflict, 'range-in-use', `the range ${range} overlaps ${what}`, {
      details: `pods and node would take each other's packets; ${cure}use another range, or set "allowOverlap": true`,
    })
  }
  const ownLinks = new Set(
    [wanted, before].flatMap((network) => [network?.bridge?.name, network?.bridge?.vlanGateway?.name]),
  )
  for (const range of fresh) {
    for (const other of others.filter((network) => network.role === 'main' && !network.allowOverlap)) {
      const theirs = placedRanges(other).find((each) => overlaps(toCidr(each), toCidr(range)))
      const gateway = other.gateways.find((each) => overlaps(toCidr(each), toCidr(range)))
      const where = other.bridge === undefined ? ` in mode ${other.mode}` : ` on ${other.bridge.name}`
      if (theirs !== undefined) refuse(range, `${gateway ?? theirs} of network ${other.name}${where}`, '')
    }
    const gateways = new Set(
      [...others, wanted, ...(before ? [before] : [])].flatMap((network) => network.bridge?.addresses ?? []),
    )
    for (const link of host.links.values()) {
      if (isPodLinkName(link.name)) continue
      const isOwn = ownLinks.has(link.name)
      // A single address is no subnet (the tunnels of flannel and Calico have one): no pod gets it.
      const subnets = [...link.addresses.filter((each) => isSubnet(each)), ...onLinkPrefixes(host, link.name)]
      const address = subnets.find(
        (each) => overlaps(toCidr(asPrefix(each)), toCidr(range)) && !(isOwn || gateways.has(each)),
      )
      const hasDefault = host.routes.some(({ dev, dst }) => dev === link.name && isDefault(dst))
      const cure = link.name === 'lo' || hasDefault ? '' : `remove ${link.name} (ip link del ${link.name}), `
      if (address !== undefined) refuse(range, `${address} of ${link.name}`, cure)
    }
  }
}

/** A subnet that a router of the link advertises, beside an address of full length, and the node's router itself. */
function onLinkPrefixes({ routes }: Place, link: string): readonly string[] {
  const own = routes.filter(({ dev, table }) => dev === link && table === mainTable)
  const advertised = own.filter(({ isAdvertised, gw }) => isAdvertised && gw === undefined).map(({ dst }) => dst)
  return [...advertised, ...own.flatMap(({ dst, gw }) => (isDefault(dst) && gw !== undefined ? [gw] : []))]
}

function isDefault(dst: string): boolean {
  return dst === '0.0.0.0/0' || dst === '::/0'
}

/** The bridge as it can be: one of another program keeps its MAC and MTU. Throws CniError 108. */
function decideBridge(
  network: NetworkSpec,
  bridge: BridgeSpec,
  before: NetworkSpec | undefined,
  { others, host }: Around,
): BridgeSpec {
  const link = host.links.get(bridge.name)
  if (link === undefined) return bridge
  if (link.kind !== 'bridge') {
    const details = `it is of kind ${link.kind ?? 'none'}; use another name: "bridge"`
    throw new CniError(
      Code.bridgeConflict,
      'bridge-wrong-kind',
      `"${bridge.name}" already exists but is not a bridge`,
      { details },
    )
  }
  if (bridge.vlanFiltering && link.vlanFiltering === false) {
    const details = `remove it when it has no pods: ip link del ${bridge.name}`
    throw new CniError(
      Code.bridgeConflict,
      'bridge-without-vlans',
      `bridge ${bridge.name} was made without VLAN filtering`,
      { details },
    )
  }
  requireNoForeignAddress(network, bridge, before, others, link)
  // One that was made again by hand is ours still: its pods have its MAC as their gateway's.
  const wasOurs = [...others, ...(before ? [before] : [])].some(
    (each) => each.bridge?.name === bridge.name && !each.bridge.isForeign,
  )
  const isOurs = wasOurs || link.alias === ownBridgeAlias || link.mac === bridgeMac(bridge.name, machineId())
  return isOurs ? { ...bridge, mtu: link.mtu } : { ...bridge, mac: link.mac, mtu: link.mtu, isForeign: true }
}

/** A bridge carries one IPv4 gateway of others, or IPv6 ones that lie apart, only with forceAddress. */
function requireNoForeignAddress(
  network: NetworkSpec,
  bridge: BridgeSpec,
  before: NetworkSpec | undefined,
  others: readonly NetworkSpec[],
  link: ObservedLink,
): void {
  const [wanted] = bridge.addresses
  if (wanted === undefined || bridge.forceAddress || bridge.vlanGateway !== undefined) return
  const ours = new Set(
    [...others, network, ...(before ? [before] : [])].flatMap((each) => each.bridge?.addresses ?? []),
  )
  for (const own of bridge.addresses) {
    const isInTheWay = (address: string) =>
      !address.startsWith('fe80:') &&
      !ours.has(address) &&
      familyOf(address) === familyOf(own) &&
      (familyOf(own) === 4 || overlaps(toCidr(address), toCidr(own)))
    const foreign = link.addresses.find(isInTheWay)
    if (foreign === undefined) continue
    const message = `"${bridge.name}" already has an IP address different from ${own}: ${foreign}`
    throw new CniError(Code.bridgeConflict, 'bridge-foreign-address', message, {
      details: `another program gave it that address: ip addr del ${foreign} dev ${bridge.name}; or use another "bridge", or "forceAddress": true`,
    })
  }
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
  const there = specs.filter(
    (spec) => spec.host !== undefined && spec.kept === undefined && host.links.has(spec.host.name),
  )
  const ops: Op[] = []
  for (const spec of there) {
    for (const op of opsOf(spec)) {
      if (op.place !== 'host' || 'element' in op || op.kind === 'veth.add') continue
      if (op.kind === 'sysctl.set' || differencesOf(op, { host, queues }).length > 0)
        ops.push({ ...op, tolerate: 'absent' })
    }
    if (!host.links.get(spec.host?.name ?? '')?.up)
      ops.push({
        place: 'host',
        kind: 'link.set',
        dev: spec.host?.name ?? '',
        set: { up: true },
        tolerate: 'absent',
        why: `set ${spec.host?.name} up`,
      })
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
    if (seen?.isDormant)
      ops.push({ place: 'host', kind: 'table.delete', table, why: `replace the nft table ${table} ${tableName}` })
    const isNewer = seen !== undefined && !seen.isDormant && isNewerVersion(versionOf(seen.comments))
    if (!isNewer)
      ops.push({
        place: 'host',
        kind: 'table.set',
        table,
        isEmptied: true,
        hasAccept,
        why: `set up the nft table ${table} ${tableName}`,
      })
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
    return isOwn
      ? [{ place: 'host', kind: 'table.delete', table, why: `replace the nft table ${table} ${tableName}` }, each]
      : [each]
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

/** Bridges of ours that a change of the configuration left without a network. */
function unusedBridges(
  before: NetworkSpec | undefined,
  own: NetworkSpec | undefined,
  networks: readonly NetworkSpec[],
  host: Place,
): readonly BridgeSpec[] {
  const old = before?.bridge
  if (old === undefined || own === undefined || old.isForeign) return []
  const isUsed = (name: string) => networks.some(({ bridge }) => bridge?.name === name)
  const isGone = old.name !== own.bridge?.name && !isUsed(old.name) && host.links.has(old.name)
  if (isGone) return [old]
  const gateway = old.vlanGateway
  const isOtherVlan =
    gateway !== undefined && gateway.name !== own.bridge?.vlanGateway?.name && host.links.has(gateway.name)
  return isOtherVlan ? [{ ...old, name: '' }] : []
}
