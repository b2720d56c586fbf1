// SPDX-License-Identifier: Apache-2.0
// State against the kernel: the repairs of `restore` and `gc` as a dry run, and the inside of pods.

import { existsSync } from 'node:fs'
import {
  allRecords,
  contextOfCore,
  differencesInPod,
  isDead,
  isOwnLink,
  judgeAll,
  type Listed,
  lostRecords,
  partialRecords,
  restore,
} from '../../../src-before/core.ts'
import type { ObservedNamespace } from '../../../src-before/model/observed.ts'
import { type AttachmentRecord, describeHolder, sameKey } from '../../../src-before/model/record.ts'
import { type CachedAttachment, cachedTypes, isPartOurs } from '../../../src-before/plan/upstream/libcni-cache.ts'
import { findListeners, textsOf } from '../../../src-before/system/kernel/listening.ts'
import { identityOfNetns } from '../../../src-before/system/kernel/netns.ts'
import {
  allCachedAttachments,
  cachedAttachment,
  cachedAttachments,
} from '../../../src-before/system/upstream/read-libcni-cache.ts'
import { bareAddress } from '../../cni/addresses.ts'
import { netnsState } from '../../kernel/netns.ts'
import { uplinkMtu } from '../../kernel/proc.ts'
import { namesIn } from '../../state/files.ts'
import { stateRoot } from '../../state/layout.ts'
import type { Difference, NotLooked, PodName, StateFacts } from './facts.ts'

/** Each pod costs a process in its namespace, so the number is bounded. */
const mostPods = 200
const podsAtOnce = 8

export function hasState(): boolean {
  return existsSync(stateRoot())
}

/** Whether a host link has trestle's alias: then state exists, or was lost. */
export function hasOwnLinks({ links }: ObservedNamespace): boolean {
  return [...links.values()].some(({ name, alias }) => isOwnLink(name, alias))
}

/** Attachments of this node with live pods. */
export function livePods(): readonly AttachmentRecord[] {
  if (!hasState()) return []
  return allRecords().flatMap(({ isPending, record }) => (!isPending && isLive(record) ? [record] : []))
}

/** The namespace of a record that was found again is not known. */
function isLive(record: AttachmentRecord): boolean {
  const { netns } = record
  return netnsState(netns) === 'live' || (netns.path === '' && record.spec !== undefined && !isDead(record))
}

/** Changes nothing. Throws CniError as `restore` and `gc` do. `listed`: containers that runtimes list. */
export async function lookAtState(host: ObservedNamespace, listed: Listed): Promise<StateFacts> {
  const live = livePods()
  const { differences, accepts, lost } = await restore(false)
  const attached = live.filter(({ key }) => key.role !== 'ipam')
  const pods = attached.filter(({ spec }) => spec !== undefined)
  const mtu = uplinkMtu()
  const inside = await lookIntoPods(pods.slice(0, mostPods))
  return {
    differences: differences.map(asDifference),
    accepts,
    lacks: [...lostRecords(host), ...namespacesWithoutRecord()],
    partial: partialRecords(),
    lost: lost.flatMap(({ id }) => live.find(({ key }) => sameKey(key, id)) ?? []).map(nameOf),
    pods: inside.filter(({ found }) => found.length > 0),
    podsNotSeen: reasonsOf(inside),
    pendingCleanups: allRecords().flatMap(({ record }) => (record.pendingCleanup === undefined ? [] : [record])),
    garbage: (await judgeAll(contextOfCore(), listed)).filter(({ verdict }) => verdict !== 'keep'),
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

/** What libcni remembers of trestle's pods and no record names: the kernel does not tell of all that is lost. */
function namespacesWithoutRecord(): readonly string[] {
  const known = allRecords().map(({ record: { key } }) => `${key.network} ${key.containerId} ${key.ifName}`)
  return liveCached()
    .filter((each) => isPartOurs(each) && !known.includes(`${each.network} ${each.containerId} ${each.ifName}`))
    .map(({ network, ifName, netns }) => `a record of ${ifName} in namespace ${netns}, of network ${network}`)
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

function asDifference({ op, found }: Awaited<ReturnType<typeof restore>>['differences'][number]): Difference {
  const dev = 'dev' in op ? op.dev : 'name' in op ? op.name : ''
  const master = op.kind === 'link.set' ? op.set.master : 'master' in op ? op.master : undefined
  const isAlias = op.kind === 'link.set' && op.set.alias !== undefined
  const kind = op.kind === 'sysctl.set' && /ip_forward|all\/forwarding/.test(op.key) ? 'forwarding' : op.kind
  return { kind: isAlias ? 'alias' : kind, dev, ...(master === undefined ? {} : { master }), found }
}

/**
 * The differences inside a pod. `why`: the reason if the pod could not be entered, which says nothing about the pod.
 */
type Inside = StateFacts['pods'][number] & { readonly why?: string }

async function lookIntoPods(records: readonly AttachmentRecord[]): Promise<readonly Inside[]> {
  const all: Inside[] = []
  for (let at = 0; at < records.length; at += podsAtOnce) {
    const some = records.slice(at, at + podsAtOnce)
    all.push(...(await Promise.all(some.map((record) => lookIntoPod(record)))))
  }
  return all
}

/** The part of CHECK inside the pod; libcni's cached result has the changes of later plugins. */
async function lookIntoPod(record: AttachmentRecord): Promise<Inside> {
  const name = nameOf(record)
  try {
    const { found, pod } = await differencesInPod(record, cachedAttachment(record.key)?.result)
    return { ...name, found, isTaken: isTakenInside(found, pod, record.key.ifName) }
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
function isTakenInside(
  found: readonly string[],
  pod: Awaited<ReturnType<typeof differencesInPod>>['pod'],
  ifName: string,
): boolean {
  const links = [...(pod?.links.values() ?? [])]
  if (links.some(({ master, kind, up }) => up && kind !== 'tun' && master?.startsWith('k6t-'))) return true
  const own = links.find(({ name }) => name === ifName)
  const hasAddress = own?.addresses.some((address) => !address.startsWith('fe80:'))
  return hasAddress === false && found.every((line) => /address|route|\d+\.\d+\.\d+\.\d+\/|[\da-f:]+\//.test(line))
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
