// SPDX-License-Identifier: Apache-2.0
// restore: everything that state says should be on the host, and is not, made again: after
// `nft flush ruleset`, a firewall's reload, a bridge that was removed. What holds is left alone.

import { bridgeSysctlOps, ownMacOps, type Port, portOps } from '../../drivers/bridge.ts'
import { driverOf } from '../../drivers/drivers.ts'
import { bridgeOps, refilledRuleOps } from '../../drivers/network.ts'
import { gatewayLink } from '../../features/bridge-port.ts'
import { featureOps } from '../../features/features.ts'
import type { AttachmentKey, AttachmentSpec, BridgePort, NetworkSpec } from '../../model/attachment.ts'
import { bridgeMac, hostLinkName, keyOfHostLink } from '../../model/names.ts'
import type { ObservedNamespace } from '../../model/observed.ts'
import { isMaking, isOfRules, type Op, withoutRepeats } from '../../model/op.ts'
import { type AttachmentRecord, knownSpec, sameKey } from '../../model/record.ts'
import { isOursStill } from '../../plan/ipam/bridge-addresses.ts'
import { type Difference, difference } from '../../plan/order/difference.ts'
import { acceptingAll } from '../../plan/order/earlier-networks.ts'
import { unpluggedPorts } from '../../plan/order/set-up.ts'
import { ownOps } from '../../plan/order/stages.ts'
import { isPlaced } from '../../plan/recovery/from-kernel.ts'
import { networkParts, requireState, requireStateIfThere } from '../../system/files/state.ts'
import { absentAccepts, lookingOnce } from '../../system/firewalls/host-accept.ts'
import { absentMarkAccepts } from '../../system/firewalls/mark-accept.ts'
import { execute, executeWithRules } from '../../system/kernel/execute.ts'
import { requireOwnHost } from '../../system/kernel/host-namespace.ts'
import { closeNetns, netnsState } from '../../system/kernel/netns.ts'
import { observeHost, observePod } from '../../system/kernel/observe.ts'
import { endKilledCalls } from '../../system/process/call-processes.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { readCluster } from '../../system/store/cluster.ts'
import { openedLinks } from '../../system/store/localnet.ts'
import { withLock } from '../../system/store/lock.ts'
import { allNetworks, allRecords, knownNetwork } from '../../system/store/records.ts'
import { CommandError } from '../../tools/command-error.ts'
import { settleHostAccepts } from '../attach/shared-port.ts'
import { type CallContext, openIfThere } from '../call/context.ts'
import { earlierInUse, liveSpecs, networksHere, placedPods, recordsElsewhere } from '../call/in-use.ts'
import { machineLock } from '../call/locks.ts'
import { observeBesideLinks } from '../call/observe-ops.ts'
import { missingState } from '../recover/recover.ts'

/** What was different, each once, and what could not be made again: finished attachments whose interface is gone. */
export interface Restored {
  readonly missing: readonly string[]
  readonly lost: readonly string[]
  /** Those whose namespace is gone, too: there is nothing to make, DEL or `gc` removes what is left. */
  readonly ended: readonly string[]
  /** Pods' links that are on no bridge, and nothing tells on which they were: the next ADD of the network does. */
  readonly unplaced: readonly string[]
  /** Attachments of another host network namespace: left alone. */
  readonly elsewhere: readonly string[]
  readonly parts: RestoredParts
}

/** The same by what it is of, for `trestle doctor`. `lost`: their attachments. */
interface RestoredParts {
  readonly state: readonly string[]
  readonly differences: readonly Difference[]
  readonly accepts: readonly string[]
  readonly lost: readonly AttachmentSpec[]
}

/** How often the host is looked at: an ADD or DEL beside us makes or removes links meanwhile. */
const mostLooks = 3

/**
 * Compares state with the host; with `apply`, makes what is missing. Throws CniError as ADD does, and 111 where all
 * attachments are of another host network namespace.
 */
export async function restore(context: CallContext, apply: boolean): Promise<Restored> {
  if (apply) requireState()
  // Where no state is there and none is made, there is nothing that a lock could guard.
  const isLost = !apply && !requireStateIfThere()
  const others = recordsElsewhere(context)
  const [first] = others
  if (first !== undefined && others.length === allRecords().length) requireOwnHost(first, context.identity)
  if (apply) await endKilledCalls(false)
  const locked = <T>(body: () => Promise<T>) => (isLost ? body() : withLock(machineLock(context, 'restore'), body))
  return await locked(async () => {
    const state = await missingState(context)
    if (apply) for (const { mend } of state) await mend()
    const { differences, lost, ended, unplaced } = await reconcile(context, { apply, others })
    const accepts = await missingAcceptTexts(context)
    if (apply) await settleHostAccepts(context)
    const texts = state.map(({ text }) => text)
    // Several operations may say the same of one link.
    const missing = [...new Set([...texts, ...differences.flatMap(({ found }) => found), ...accepts])]
    const parts = { state: texts, differences, accepts, lost }
    const told = { lost: lost.map(describe), ended: ended.map(describe), unplaced, elsewhere: others.map(describe) }
    return { missing, ...told, parts }
  })
}

/** `others`: attachments of another host, which are left alone with the networks that are theirs alone. */
interface Reconciling {
  readonly apply: boolean
  readonly others: readonly AttachmentRecord[]
}

/** What was different at any look, and the attachments whose interface was gone at the last one. */
async function reconcile(context: CallContext, { apply, others }: Reconciling) {
  const all: Difference[] = []
  for (let looks = 1; ; looks++) {
    const { differences, rules, ...gone } = await compare(context, others)
    all.push(...differences)
    if (!apply || differences.length === 0) return { differences: all, ...gone }
    try {
      await applyDifferences(context, differences, rules)
      return { differences: all, ...gone }
    } catch (error) {
      if (looks === mostLooks || !isOvertaken(error)) throw error
    }
  }
}

/** A link is there that was not when we looked, or not any more. */
function isOvertaken(error: unknown): boolean {
  return error instanceof CommandError && (error.reason === 'exists' || error.reason === 'absent')
}

async function compare(context: CallContext, others: readonly AttachmentRecord[]) {
  const current = networksHere(others)
  const networks = [...current, ...earlierInUse(context, current)]
  const all = liveSpecs(context)
  const host = await observeHost(context.run, undefined, all.some((spec) => driverOf(spec).isRouted) ? 'all' : [])
  // The bridge of another plugin: nothing of ours makes it again, nor plugs its pods in.
  const own = new Set(networks.flatMap(({ bridge }) => (bridge === undefined ? [] : gatewayLink(bridge))))
  const isThere = (spec: AttachmentSpec) => {
    const { hostLink, hostIndex } = spec.chained ?? {}
    const name = spec.host?.name ?? hostLink
    const link = host.links.get(name ?? '')
    const bridge = spec.chained && spec.hostPorts?.link
    if (bridge !== undefined && !own.has(bridge) && !host.links.has(bridge)) return false
    return name === undefined || (link !== undefined && (hostIndex ?? link.index) === link.index)
  }
  const attachments = all.filter(isThere)
  const rules = refilledRuleOps({ networks, attachments: all, cluster: readCluster(), opened: openedLinks() })
  const unplugged = current.flatMap((network) =>
    unpluggedPorts(network.name, { attachments: all, host }, portOf(network, attachments)),
  )
  const ports = [...attachments, ...unplugged].flatMap(({ port }) => port?.bridge ?? [])
  // In the range of a bridge that is gone and has no pods, another network may be by now, and the bridge of that name
  // another program's: an ADD looks at that.
  const around = { networks, pods: placedPods(context, current), host }
  const standing = networks.filter(({ bridge }) => {
    const ownMac = bridgeMac(bridge?.name ?? '', machineId())
    if (bridge === undefined || bridge.mac !== ownMac) return true
    return host.links.has(bridge.name) ? isOursStill(bridge, { ...around, ownMac }) : ports.includes(bridge.name)
  })
  const ops = [...linkOps(standing, attachments), ...unplugged.flatMap(portOps), ...rules]
  const differences = difference(ops, { host, ...(await observeBesideLinks(context.run, ops)) })
  const missing = [...all.filter((spec) => !isThere(spec)), ...(await missingInPods(context, all))]
  return { differences, rules, ...withoutLink(missing), unplaced: unplacedTexts(host, unplugged) }
}

/**
 * Those whose interface is in the pod alone, and not there: its master or its device has gone, say. One process for
 * each such pod.
 */
async function missingInPods(context: CallContext, specs: readonly AttachmentSpec[]) {
  const records = allRecords()
  const missing: AttachmentSpec[] = []
  for (const spec of specs.filter((each) => driverOf(each).isInPodAlone)) {
    const netns = records.find(({ record: { key } }) => sameKey(key, spec.key))?.record.netns
    const state = netns && netnsState(netns)
    const isGone = state === 'gone' || (state === 'live' && !(await hasLink(context, netns?.path ?? '', spec)))
    if (isGone) missing.push(spec)
  }
  return missing
}

/** True for a pod that ends meanwhile. */
async function hasLink(context: CallContext, path: string, { pod }: AttachmentSpec): Promise<boolean> {
  const netns = openIfThere(context, path)
  if (netns === undefined) return true
  try {
    return (await observePod(context.run, netns.fd)).links.has(pod?.name ?? '')
  } finally {
    closeNetns(netns)
  }
}

/** Neither a record nor libcni's cache tells their bridge, which has gone. */
function unplacedTexts({ links }: ObservedNamespace, unplugged: readonly Port[]): readonly string[] {
  const known = allRecords().filter(({ isPending, record }) => isPending || knownSpec(record) !== undefined)
  const names = new Set([
    ...known.map(({ record }) => hostLinkName(record.key)),
    ...unplugged.map(({ host }) => host?.name),
  ])
  return [...links.values()].flatMap((link) => {
    const key = keyOfHostLink(link.name, link.alias)
    return key === undefined || names.has(link.name) || isPlaced({ link }) ? [] : [describe({ key })]
  })
}

/** Of finished attachments without their link: whose pod lives, or may, and whose namespace is gone. */
function withoutLink(specs: readonly AttachmentSpec[]) {
  const records = allRecords().flatMap(({ isPending, record }) => (isPending ? [] : [record]))
  const found = specs.flatMap((spec) => {
    const record = records.find(({ key }) => sameKey(key, spec.key))
    return record === undefined ? [] : [{ spec, isEnded: netnsState(record.netns) === 'gone' }]
  })
  const those = (isWanted: boolean) => found.flatMap(({ spec, isEnded }) => (isEnded === isWanted ? [spec] : []))
  return { lost: those(false), ended: those(true) }
}

/** A port of the network, as another pod has one, or as its policy wants it. */
function portOf(
  { bridge, ingressPolicy }: NetworkSpec,
  attachments: readonly AttachmentSpec[],
): BridgePort | undefined {
  const known = attachments.find(({ port }) => port !== undefined && port.bridge === bridge?.name)
  return known?.port ?? (bridge && { bridge: bridge.name, hairpin: false, isolated: ingressPolicy === 'isolated' })
}

/** Where a foreign firewall drops and an accept of ours is missing. */
async function missingAcceptTexts(context: CallContext): Promise<readonly string[]> {
  const texts: string[] = []
  const look = lookingOnce(context.run)
  const networks = allNetworks()
  const earlier = earlierInUse(context, networks)
  for (const files of networkParts()) {
    const network = knownNetwork(files)
    if (network !== undefined) texts.push(...(await absentAccepts(look, files, acceptingAll(network, earlier))))
  }
  return [...texts, ...(await absentMarkAccepts(context.run, [...networks, ...earlier]))]
}

/** Rules go in as one transaction: all of them, when one is missing. */
async function applyDifferences(
  context: CallContext,
  differences: readonly Difference[],
  rules: readonly Op[],
): Promise<void> {
  const missing = differences.map(({ op }) => op).filter((op) => !isOfRules(op))
  const needsRules = differences.some(({ op }) => isOfRules(op))
  // What route_localnet opens is closed by a rule, which comes first (afterRuleOps).
  const isSetting = (op: Op) => op.kind === 'sysctl.write'
  await executeWithRules({ run: context.run }, [
    ...missing.filter((op) => !isSetting(op)),
    ...(needsRules ? rules : []),
  ])
  await execute({ run: context.run }, missing.filter(isSetting))
}

function linkOps(networks: readonly NetworkSpec[], attachments: readonly AttachmentSpec[]): readonly Op[] {
  const ofNetworks = networks.flatMap((network) => [
    ...bridgeOps(network, attachments),
    ...(network.bridge ? [...bridgeSysctlOps(network.bridge), ...ownMacOps(network.bridge, machineId())] : []),
  ])
  const own = attachments.flatMap((spec) => [
    ...portOps(spec),
    ...hostEndOps(spec),
    ...Object.values(ownOps(spec)).flat().filter(isRestored),
    ...featureOps('stateOps', spec),
  ])
  // One tool after the other: neighbours for the same tool are one process (tools/batches.ts).
  const turnOf = ({ kind }: Op) => (kind === 'sysctl.write' ? 2 : /^(qdisc|filter)\./.test(kind) ? 1 : 0)
  return withoutRepeats([...ofNetworks, ...[0, 1, 2].flatMap((turn) => own.filter((op) => turnOf(op) === turn))])
}

/** Of an interface that is there: the host's side. */
function isRestored(op: Op): boolean {
  return op.in === 'host' && !isMaking(op)
}

/** What ADD says in one line with the creation of the pair. */
function hostEndOps({ host, mtu }: AttachmentSpec): readonly Op[] {
  if (host === undefined) return []
  const { name: dev, mac } = host
  return [
    ...(mac === '' ? [] : [{ in: 'host', kind: 'link.mac', dev, mac, why: `set the MAC of ${dev}` } as const]),
    { in: 'host', kind: 'link.mtu', dev, mtu: host.mtu ?? mtu, why: `set the MTU of ${dev}` },
    { in: 'host', kind: 'link.up', dev, why: `set ${dev} up` },
  ]
}

function describe({ key }: { readonly key: AttachmentKey }): string {
  return `${key.ifName} of container ${key.containerId} (network ${key.network})`
}
