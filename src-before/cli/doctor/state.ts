// SPDX-License-Identifier: Apache-2.0
// State against the kernel: the repairs of `restore` and `gc` as a dry run, and the inside of pods.

import { existsSync } from 'node:fs'
import { bareAddress, familyOf } from '../../cni/address.ts'
import { ownType } from '../../cni/invocation.ts'
import type { CallContext } from '../../commands/call/context.ts'
import { observeFor } from '../../commands/call/observe-ops.ts'
import { judgeAll, judgeOrphans, judgeReservations, type Listed } from '../../commands/recover/collect.ts'
import { restore } from '../../commands/verbs/restore.ts'
import { gatewayLink } from '../../features/bridge-port.ts'
import type { NetworkSpec } from '../../model/attachment.ts'
import { keyOfHostLink } from '../../model/names.ts'
import type { AddressedLinks, Observed, ObservedLink, ObservedNamespace } from '../../model/observed.ts'
import type { Op } from '../../model/op.ts'
import { type AttachmentRecord, describeHolder, sameKey } from '../../model/record.ts'
import { podDifference } from '../../plan/order/difference.ts'
import { asEarlier } from '../../plan/order/earlier-networks.ts'
import { expectedBy, expectedOps, withLaterMtu } from '../../plan/order/expected.ts'
import { type CachedAttachment, cachedTypes, isPartOurs, mtuSetLater } from '../../plan/upstream/libcni-cache.ts'
import { namesIn } from '../../system/files/files.ts'
import { stateRoot } from '../../system/files/state.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { linksInFiles } from '../../system/kernel/links-in-files.ts'
import { findListeners, textsOf } from '../../system/kernel/listening.ts'
import { identityOfNetns, netnsState } from '../../system/kernel/netns.ts'
import { uplinkMtu } from '../../system/kernel/uplink.ts'
import { allNetworks, allRecords } from '../../system/store/records.ts'
import { allCachedAttachments, cachedAttachment, cachedAttachments } from '../../system/upstream/read-libcni-cache.ts'
import { blockedDirectories } from '../node/blocked-directories.ts'
import type { Difference, NotLooked, PodName, StateFacts } from './facts.ts'

/** Each pod costs a process in its namespace, so the number is bounded. */
const mostPods = 200
const podsAtOnce = 8

export function hasState(): boolean {
  return existsSync(stateRoot())
}

/** Whether a host link has trestle's alias: then state exists, or was lost. */
export function hasOwnLinks({ links }: ObservedNamespace): boolean {
  return [...links.values()].some(({ name, alias }) => keyOfHostLink(name, alias) !== undefined)
}

/** Attachments of this node with live pods. */
export function livePods({ identity }: CallContext): readonly AttachmentRecord[] {
  if (!hasState()) return []
  return allRecords().flatMap(({ isPending, record }) =>
    !isPending && hostStateOf(record.writer, identity) === 'here' && netnsState(record.netns) === 'live'
      ? [record]
      : [],
  )
}

/** Changes nothing. Throws CniError as `restore` and `gc` do. `listed`: containers that runtimes list. */
export async function lookAtState(context: CallContext, listed: Listed): Promise<StateFacts> {
  const live = livePods(context)
  const { parts, elsewhere } = await restore(context, false)
  const pods = live.filter(({ spec, key }) => spec !== undefined && key.role !== 'ipam')
  const isLive = (spec: { readonly key: AttachmentRecord['key'] }) => live.find(({ key }) => sameKey(key, spec.key))
  const attached = live.filter(({ key }) => key.role !== 'ipam')
  const mtu = uplinkMtu(pods.every(isIpv4Only) ? 'IPv4' : 'any')
  const [networks, links] = [allNetworks(), linksInFiles()?.links]
  const inside = await lookIntoPods(context, pods.slice(0, mostPods))
  return {
    differences: parts.differences.map(asDifference),
    state: parts.state,
    accepts: parts.accepts,
    lost: parts.lost.flatMap((spec) => isLive(spec) ?? []).map(nameOf),
    elsewhere,
    replaced: live.flatMap((record) => {
      const gateways = gatewaysGone(record, networks, links)
      return gateways.length === 0 ? [] : [{ ...nameOf(record), gateways }]
    }),
    partial: live.filter(({ spec, key }) => spec === undefined && key.role !== 'ipam').map(nameOf),
    pods: inside.filter(({ found }) => found.length > 0),
    podsNotSeen: reasonsOf(inside),
    pendingCleanups: allRecords().flatMap(({ record }) => (record.pendingCleanup === undefined ? [] : [record])),
    attachments: await judgeAll(context, listed),
    reservations: await judgeReservations(context, listed),
    orphans: await judgeOrphans(context, listed),
    inTheWay: blockedDirectories(),
    damaged: namesIn(`${stateRoot()}/damaged`).map((name) => `${stateRoot()}/damaged/${name}`),
    ports: live.flatMap(listeners),
    mtus: live.flatMap((record) => {
      const { spec } = record
      return spec?.host !== undefined && leavesByNode(record) ? [{ pod: describeHolder(record), mtu: spec.mtu }] : []
    }),
    ...(mtu === undefined ? {} : { uplinkMtu: mtu }),
    podsOf: countByNetwork(attached),
    podsOfKubelet: countByNetwork(attached.filter(({ pod }) => pod !== undefined)),
  }
}

/** The gateways of a pod that another gateway has replaced on its bridge (forceAddress). */
function gatewaysGone(
  { spec, network: made }: AttachmentRecord,
  networks: readonly NetworkSpec[],
  links: AddressedLinks['links'] | undefined,
): readonly string[] {
  const now = networks.find(({ name }) => name === made?.name)
  if (spec === undefined || made === undefined || now?.bridge === undefined) return []
  const addresses = spec.ips.map(({ address }) => bareAddress(address))
  const needed = asEarlier(now, { made, part: undefined, addresses }).bridge?.addresses ?? []
  const there = [...now.bridge.addresses, ...(links?.get(gatewayLink(now.bridge))?.addresses ?? [])]
  return needed.filter((gateway) => !there.includes(gateway))
}

function countByNetwork(records: readonly AttachmentRecord[]): ReadonlyMap<string, number> {
  const byNetwork = Map.groupBy(records, ({ key }) => key.network)
  return new Map([...byNetwork].map(([network, all]) => [network, all.length]))
}

/** Whether the pod's default route is by the node: packets of a storage network do not leave by the uplink. */
export function leavesByNode({ spec, network }: AttachmentRecord): boolean {
  const defaults = [...(spec?.routes ?? []), ...(spec?.defaultRoutes ?? [])].filter(({ dst }) => dst.endsWith('/0'))
  const gateways = spec?.port === undefined ? undefined : network?.bridge?.addresses.map(bareAddress)
  return defaults.some(({ gw }) => gateways === undefined || gw === undefined || gateways.includes(gw))
}

function isIpv4Only({ spec }: AttachmentRecord): boolean {
  return spec?.ips.every(({ address }) => familyOf(address) === 4) === true
}

function asDifference({ op, found }: { readonly op: Op; readonly found: readonly string[] }): Difference {
  const dev = 'dev' in op ? op.dev : 'name' in op ? op.name : ''
  return { kind: op.kind, dev, ...('master' in op ? { master: op.master } : {}), found }
}

/**
 * The differences inside a pod. `why`: the reason if the pod could not be entered, which says nothing about the pod.
 */
type Inside = StateFacts['pods'][number] & { readonly why?: string }

async function lookIntoPods(context: CallContext, records: readonly AttachmentRecord[]): Promise<readonly Inside[]> {
  const all: Inside[] = []
  for (let at = 0; at < records.length; at += podsAtOnce) {
    const some = records.slice(at, at + podsAtOnce)
    all.push(...(await Promise.all(some.map((record) => lookIntoPod(context, record)))))
  }
  return all
}

/** The part of CHECK inside the pod; libcni's cached result has the changes of later plugins. */
async function lookIntoPod(context: CallContext, record: AttachmentRecord): Promise<Inside> {
  const name = nameOf(record)
  const ops = expectedOfRecord(record)
  const inPod = ops.filter((op) => op.in === 'pod')
  try {
    const observed = await observeFor(context, record.netns.path, inPod)
    const found = podDifference(ops, observed)
    return { ...name, found: [...new Set(found)], isTaken: isTakenInside(ops, observed, record.key.ifName) }
  } catch (error) {
    // A pod that ended meanwhile has no differences.
    const isGone = netnsState(record.netns) !== 'live'
    return { ...name, found: [], isTaken: false, ...(isGone ? {} : { why: (error as Error).message }) }
  }
}

/**
 * gVisor takes the addresses, and with them the routes. KubeVirt's bridge binding makes the end a port of its bridge,
 * under another name and with another MAC, beside the tap of its machine.
 */
function isTakenInside(ops: readonly Op[], observed: Observed, ifName: string): boolean {
  const links = observed.pod?.links ?? new Map<string, ObservedLink>()
  if ([...links.values()].some(({ master, kind, up }) => up && kind !== 'tun' && master?.startsWith('k6t-')))
    return true
  const hasAddress = links.get(ifName)?.addresses.some((address) => !address.startsWith('fe80:'))
  const others = ops.filter(({ kind }) => kind !== 'addr.replace' && kind !== 'route.add')
  return hasAddress === false && podDifference(others, observed).length === 0
}

/** Each reason once: a missing tool fails in every pod. */
function reasonsOf(all: readonly Inside[]): readonly string[] {
  const unseen = Map.groupBy(all, ({ why }) => why)
  return [...unseen].flatMap(([why, pods]) =>
    why === undefined ? [] : [`the inside of ${pods.length === 1 ? '1 pod' : `${pods.length} pods`}: ${why}`],
  )
}

function nameOf(record: AttachmentRecord): PodName {
  const { pod, key } = record
  return { pod: describeHolder(record), ...(pod === undefined ? {} : { sandbox: key.containerId }) }
}

function listeners(record: AttachmentRecord) {
  const found = findListeners(record.spec?.hostPorts?.ports ?? []).map(textsOf)
  return found.map(({ what, where }) => ({ port: what, listener: where, pod: describeHolder(record) }))
}

// Pods of other plugins are not compared with the kernel: the report says so, so that it is no all-clear.

/**
 * Live attachments of libcni's cache. `lo` does not count: containerd attaches a network `cni-loopback` to each pod,
 * trestle's too (containerd/go-cni, WithLoNetwork).
 */
export function liveCached(network?: string): readonly CachedAttachment[] {
  const isLive = (path: string) => path !== '' && netnsState(identityOfNetns(path)) === 'live'
  const cached = network === undefined ? allCachedAttachments() : cachedAttachments(network)
  return cached.filter(({ ifName, netns }) => ifName !== 'lo' && isLive(netns))
}

/** One reason for all live pods of other plugins, by libcni's cache. */
export function podsOfOthers(): readonly NotLooked[] {
  const others = liveCached().filter((attachment) => !isPartOurs(attachment))
  const types = [...new Set(others.flatMap((attachment) => cachedTypes(attachment).slice(0, 1)))].toSorted()
  return types.length === 0
    ? []
    : [{ group: 'network', why: `pods of ${types.join(', ')} are not compared with the kernel`, isPartial: true }]
}

// Expectations for a pod, by its record and by libcni's cached result: later plugins may have changed it.

/** All operations that CHECK compares with the kernel; none for a record without a spec. */
export function expectedOfRecord({ key, spec, netns, network }: AttachmentRecord): readonly Op[] {
  if (spec === undefined) return []
  const cached = cachedAttachment(key)
  const byResult = cached === undefined ? spec : expectedBy(cached.result, spec, netns.path).spec
  const now = withLaterMtu(byResult, cached && mtuSetLater(cached, { type: ownType, role: 'main' }))
  return expectedOps(now, network, { all: network === undefined ? [] : [network, ...allNetworks()] })
}
