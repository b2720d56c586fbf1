// SPDX-License-Identifier: Apache-2.0
// Facts about one pod: its records, libcni's cache, its sandboxes, and its links, addresses, routes and rules in the
// kernel.

import type { CallContext } from '../../../src-before/commands/call/context.ts'
import { allRecords, differencesInPod, rulesOf } from '../../../src-before/core.ts'
import type { ObservedLink, ObservedRoute } from '../../../src-before/model/observed.ts'
import type { AttachmentRecord } from '../../../src-before/model/record.ts'
import { type CachedAttachment, podIpsOf } from '../../../src-before/plan/upstream/libcni-cache.ts'
import { observeHost } from '../../../src-before/system/kernel/observe.ts'
import { allCachedAttachments, cachedAttachment } from '../../../src-before/system/upstream/read-libcni-cache.ts'
import { familyOf } from '../../cni/addresses.ts'
import { netnsState } from '../../kernel/netns.ts'
import type { Finding } from '../findings.ts'
import type { PodSandbox } from '../runtimes/runtime-list.ts'
import type { PodAttachment, PodFacts } from './facts.ts'
import { hasState } from './state.ts'

/** The shortest prefix that counts as a container id; crictl prints longer ones. */
const leastId = 6

/** `listed`: the sandboxes of all pods. */
export async function lookAtPod(context: CallContext, asked: string, listed: readonly PodSandbox[]): Promise<PodFacts> {
  const sandboxes = listed.filter(({ id, pod }) => pod === asked || isIdOf(asked, id))
  const isMeant = (containerId: string, pod: string | undefined) =>
    pod === asked || sandboxes.some(({ id }) => id === containerId) || isIdOf(asked, containerId)
  const records = (hasState() ? allRecords() : []).flatMap(({ record }) =>
    isMeant(record.key.containerId, podOf(record)) && record.key.role !== 'ipam' ? [record] : [],
  )
  const isRecorded = ({ network, containerId, ifName }: CachedAttachment) =>
    records.some(({ key }) => key.network === network && key.containerId === containerId && key.ifName === ifName)
  const cached = allCachedAttachments().filter(
    (each) => isMeant(each.containerId, podInArgs(each)) && !isRecorded(each),
  )
  const attachments = [
    ...(await Promise.all(records.map((record) => ofRecord(context, record)))),
    ...(await Promise.all(cached.map((each) => ofCache(context, each)))),
  ]
  return { asked, sandboxes, attachments, names: namesOf(asked, attachments, sandboxes) }
}

/** Whether `asked` is a container id, or a prefix of this one. */
function isIdOf(asked: string, containerId: string): boolean {
  return !asked.includes('/') && asked.length >= leastId && containerId.startsWith(asked)
}

function namesOf(asked: string, attachments: readonly PodAttachment[], sandboxes: readonly PodSandbox[]) {
  const ids = [...attachments.map(({ containerId }) => containerId), ...sandboxes.map(({ id }) => id)]
  const pods = [...attachments.flatMap(({ pod }) => pod ?? []), ...sandboxes.map(({ pod }) => pod)]
  // Messages have a prefix of the id (model/record.ts, describeHolder).
  return [...new Set([asked, ...pods, ...ids.map((id) => id.slice(0, 13))])]
}

function podOf({ pod }: AttachmentRecord): string | undefined {
  return pod === undefined ? undefined : `${pod.namespace}/${pod.name}`
}

function podInArgs({ args }: CachedAttachment): string | undefined {
  const of = (key: string) => args.find(([name]) => name === key)?.[1]
  const [namespace, name] = [of('K8S_POD_NAMESPACE'), of('K8S_POD_NAME')]
  return namespace === undefined || name === undefined ? undefined : `${namespace}/${name}`
}

async function ofRecord(context: CallContext, record: AttachmentRecord): Promise<PodAttachment> {
  const { key, netns, createdAt, spec, pendingCleanup = [] } = record
  const pod = podOf(record)
  const state = netnsState(netns)
  const seen = state === 'live' ? await lookInside(context, record) : undefined
  return {
    containerId: key.containerId,
    network: key.network,
    ifName: key.ifName,
    source: 'record',
    ...(pod === undefined ? {} : { pod }),
    createdAt,
    netns: state === 'live' ? netns.path : `${netns.path} (${state === 'gone' ? 'it is gone' : 'it cannot be seen'})`,
    links: seen === undefined ? recordedLinks(record) : linksNow(record, seen),
    addresses: (spec?.ips ?? []).map(({ address }) => address),
    routes: seen === undefined ? (spec?.routes ?? []).map(routeText) : routesNow(seen.pod, key.ifName),
    hostPorts: (spec?.hostPorts?.ports ?? []).map(
      (port) => `${port.hostIp ?? '*'}:${port.hostPort}/${port.protocol} to ${inUrl(port.podIp)}:${port.containerPort}`,
    ),
    rules: rulesOf(record),
    differences: seen?.found ?? [],
    pendingCleanup,
  }
}

type Seen = Awaited<ReturnType<typeof differencesInPod>> & { readonly host: ReadonlyMap<string, LinkNow> }
type LinkNow = Pick<ObservedLink, 'up' | 'mac' | 'mtu' | 'master'>

async function lookInside(context: CallContext, record: AttachmentRecord): Promise<Seen | undefined> {
  try {
    const { links: host } = await observeHost(context.run)
    return { ...(await differencesInPod(record, cachedAttachment(record.key)?.result)), host }
  } catch {
    return undefined
  }
}

/** RFC 3986, 3.2.2. */
function inUrl(address: string): string {
  return familyOf(address) === 6 ? `[${address}]` : address
}

function recordedLinks({ key, spec }: AttachmentRecord): readonly string[] {
  const on = spec?.port === undefined ? '' : ` on ${spec.port.bridge}`
  return [...(spec?.host === undefined ? [] : [`${spec.host.name}${on}`]), `${key.ifName} in the pod`]
}

function linksNow({ key, spec }: AttachmentRecord, { host, pod }: Seen): readonly string[] {
  const name = spec?.host?.name ?? spec?.chained?.hostLink
  const onNode = name === undefined ? [] : [linkText(name, host.get(name), 'on the node')]
  return [...onNode, linkText(key.ifName, pod?.links.get(key.ifName), 'in the pod')]
}

function linkText(name: string, link: LinkNow | undefined, where: string): string {
  if (link === undefined) return `${name} is not there ${where}`
  const port = link.master === undefined ? '' : `, port of ${link.master}`
  return `${name} ${where}: ${link.up ? 'up' : 'down'}, ${link.mac}, MTU ${link.mtu}${port}`
}

/** RT_TABLE_MAIN (rtnetlink(7)). */
const mainTable = 254

function routesNow(pod: Seen['pod'], ifName: string): readonly string[] {
  const own = (pod?.routes ?? []).filter(
    ({ table, dev }) => table === mainTable && (dev === undefined || dev === ifName),
  )
  return own.filter(({ dst }) => !dst.startsWith('fe80:')).map(routeText)
}

function routeText({ dst, gw }: Pick<ObservedRoute, 'dst' | 'gw'>): string {
  const to = dst === '0.0.0.0/0' || dst === '::/0' ? 'default' : dst
  return gw === undefined ? to : `${to} by ${gw}`
}

/** A pod of another plugin: the plugin's result, and the current links on the node. */
async function ofCache(context: CallContext, cached: CachedAttachment): Promise<PodAttachment> {
  const { containerId, network, ifName, netns, result } = cached
  const pod = podInArgs(cached)
  const names = result.interfaces.filter(({ sandbox = '' }) => sandbox === '').map(({ name }) => name)
  const host = names.length === 0 ? undefined : await observeHost(context.run).catch(() => undefined)
  const linkOf = (name: string) =>
    host === undefined ? `${name} on the node, as it was made` : linkText(name, host.links.get(name), 'on the node')
  return {
    containerId,
    network,
    ifName,
    source: 'libcni',
    ...(pod === undefined ? {} : { pod }),
    netns,
    links: [...names.map(linkOf), `${ifName} in the pod, as it was made`],
    addresses: podIpsOf(cached).map(({ address }) => address),
    routes: result.routes.map(routeText),
    hostPorts: [],
    rules: [],
    differences: [],
    pendingCleanup: [],
  }
}

// Selects the findings of one pod: findings that name the pod, and findings of the node. Findings and logged errors of
// other pods are left out.

interface Logged {
  readonly id: string
  readonly pods: readonly string[]
}

/** Findings that name a pod, its address, its port or its link. */
const ofOnePod: readonly string[] = [
  ...['interface-lost', 'pod-differs', 'port-differs', 'limit-missing', 'pending-cleanup', 'route-elsewhere'],
  ...['mtu-larger', 'port-taken', 'record-partial', 'addresses-inside'],
]

/** Leftovers of dead pods do not concern a live one. */
const ofDeadPods: readonly string[] = ['dead-attachments', 'reservations-leaked', 'orphans', 'unsure']

/** Whether a finding is about this pod or the whole node. `log`: logged errors with their pods. */
export function concerns(pod: PodFacts, { id, group, on, message }: Finding, log: readonly Logged[]): boolean {
  if (group === 'log') {
    const pods = log.find((each) => each.id === id)?.pods ?? []
    return pods.length === 0 || pods.some((name) => pod.names.includes(name))
  }
  const words = `${on} ${message}`
  const links = pod.attachments.flatMap((each) => each.links.filter(isOnNode).map((text) => text.split(' ')[0] ?? ''))
  const addresses = pod.attachments.flatMap((each) => each.addresses.map((text) => text.replace(/\/.*/, '')))
  const isNamed = [...pod.names, ...links, ...addresses].some((name) => name !== '' && hasWord(words, name))
  if (ofOnePod.includes(id)) return isNamed
  return isNamed || !ofDeadPods.includes(id)
}

/** eth0 of the pod is not eth0 of the node. */
function isOnNode(link: string): boolean {
  return link.includes(' on the node')
}

/** 10.0.0.2 is not in 10.0.0.21. */
function hasWord(text: string, word: string): boolean {
  const at = text.indexOf(word)
  if (at < 0) return false
  const isPart = (char: string | undefined) => char !== undefined && /[\w.:]/.test(char)
  const [before, after] = [text[at - 1], text[at + word.length]]
  const isEnd = !isPart(after) || after === ':' || /^[.:](?:\s|$)/.test(text.slice(at + word.length))
  return (!isPart(before) && (isEnd || /^[0-9a-f]{13}$/.test(word))) || hasWord(text.slice(at + word.length), word)
}

/** A pod without record, sandbox and log line. */
export function isUnknown({ sandboxes, attachments, names }: PodFacts, log: readonly Logged[]): boolean {
  const isLogged = log.some(({ pods }) => pods.some((pod) => names.includes(pod)))
  return sandboxes.length + attachments.length === 0 && !isLogged
}
