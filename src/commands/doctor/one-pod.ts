// SPDX-License-Identifier: Apache-2.0
// `trestle doctor --pod`: what is known of one pod, and which findings are about it.

import { bareAddress } from '../../cni/addresses.ts'
import { netnsState } from '../../kernel/netns.ts'
import type { ObservedLink } from '../../kernel/observed.ts'
import type { AttachmentRecord } from '../../state/records.ts'
import { allRecords } from '../../state/records.ts'
import type { Finding } from '../findings.ts'
import { podNameOf } from '../network-picture.ts'
import type { LoggedError } from './log.ts'
import { sandboxFailed } from './log.ts'
import type { Node } from './observed-node.ts'

/** One interface of the pod. `facts`: lines of the report, a title and a text. */
export interface PodAttachment {
  readonly containerId: string
  readonly network: string
  readonly ifName: string
  readonly pod: string
  /** Its end on the node. */
  readonly link: string | undefined
  readonly addresses: readonly string[]
  readonly facts: readonly (readonly [title: string, text: string])[]
}

/** `asked`: NAMESPACE/NAME or the beginning of a container id. `names`: the pod's names in findings and logs. */
export interface PodFacts {
  readonly asked: string
  readonly sandboxes: readonly string[]
  readonly attachments: readonly PodAttachment[]
  readonly names: readonly string[]
}

/** The shortest prefix that counts as a container id; crictl prints longer ones. */
const leastId = 6

export function lookAtPod(node: Node, asked: string): PodFacts {
  // All ids of pods by hand begin alike.
  const isIdOf = (id: string) =>
    asked.length >= leastId && id.replace('cnitool-', '').startsWith(asked.replace('cnitool-', ''))
  const sandboxes = node.sandboxes.filter(({ id, pod }) => pod === asked || isIdOf(id))
  const isMeant = (id: string, pod: string | undefined) => {
    return pod === asked || isIdOf(id) || sandboxes.some((sandbox) => sandbox.id === id)
  }
  const records = (node.hasState ? allRecords() : []).filter((record) => {
    return record.id.role !== 'ipam' && isMeant(record.id.containerId, podNameOf(record))
  })
  const attachments = records.map((record) => attachmentOf(record, node))
  const known = attachments.flatMap(({ pod, containerId }) => [containerId.slice(0, 13), pod])
  const listed = sandboxes.flatMap(({ id, pod }) => [id.slice(0, 13), pod])
  return {
    asked,
    sandboxes: sandboxes.map(({ id, isReady }) => `${id.slice(0, 13)} (${isReady ? 'ready' : 'not ready'})`),
    attachments,
    names: [...new Set([asked, ...known, ...listed])],
  }
}

function attachmentOf(record: AttachmentRecord, { host }: Node): PodAttachment {
  const { id, netns, createdAt, spec, left = [] } = record
  const pod = podNameOf(record)
  const link = spec?.host?.name ?? spec?.chained?.hostLink
  const ports = (spec?.hostPorts?.ports ?? []).map(({ hostIp = '*', hostPort, protocol, podIp, containerPort }) => {
    return `${hostIp}:${hostPort}/${protocol} to ${podIp.includes(':') ? `[${podIp}]` : podIp}:${containerPort}`
  })
  const made = `made by trestle, since ${createdAt}`
  const isThere = netnsState(netns) === 'live'
  const facts: (readonly [string, string])[] = [
    ['network', `${id.network}: ${id.ifName} of container ${id.containerId.slice(0, 13)} of ${pod}, ${made}`],
    ['namespace', isThere ? netns.path : `${netns.path} (it is gone, or cannot be seen)`],
    ...(link === undefined ? [] : [['link', linkText(link, host.links.get(link))] as const]),
    ...(spec?.addresses ?? []).map(({ address }) => ['address', address] as const),
    ...ports.map((text) => ['host port', text] as const),
    ...left.map((text) => ['cleanup', text] as const),
  ]
  const addresses = (spec?.addresses ?? []).map(({ address }) => bareAddress(address))
  return { containerId: id.containerId, network: id.network, ifName: id.ifName, pod, link, addresses, facts }
}

function linkText(name: string, link: ObservedLink | undefined): string {
  if (link === undefined) return `${name} is not there on the node`
  const port = link.master === undefined ? '' : `, port of ${link.master}`
  return `${name} on the node: ${link.up ? 'up' : 'down'}, ${link.mac}, MTU ${link.mtu}${port}`
}

/** The report's lines about a pod. */
export function podLines({ asked, sandboxes, attachments, names }: PodFacts, log: readonly LoggedError[]) {
  const lines = sandboxes.map((text) => ['sandbox', text] as readonly [string, string])
  if (attachments.length === 0) {
    const hasFailed = log.some(({ id, pods }) => id === sandboxFailed && pods.some((pod) => names.includes(pod)))
    const why = hasFailed ? 'its ADD went well, its sandbox failed, and DEL followed' : 'no ADD of it went well here'
    lines.push(['network', `no record of trestle: ${why}`])
  }
  return { title: `pod ${asked}`, lines: [...lines, ...attachments.flatMap(({ facts }) => facts)] }
}

/** Findings that name a pod, its address, its port or its link; of another pod they are left out. */
const ofOnePod: readonly string[] = [
  ...['interface-lost', 'pod-differs', 'pending-cleanup', 'route-elsewhere'],
  ...['mtu-larger', 'port-taken', 'record-partial', 'addresses-inside'],
  ...['dead-attachments', 'reservations-leaked', 'orphans', 'unsure'],
]

/** Whether a finding is about this pod or the whole node. */
export function concerns(pod: PodFacts, { id, group, on, message }: Finding, log: readonly LoggedError[]): boolean {
  if (group === 'log') {
    const pods = log.find((each) => each.id === id)?.pods ?? []
    return pods.length === 0 || pods.some((name) => pod.names.includes(name))
  }
  if (!ofOnePod.includes(id)) return true
  const names = [...pod.names, ...pod.attachments.flatMap(({ link = '', addresses }) => [link, ...addresses])]
  // 10.0.0.2 is not in 10.0.0.21; eth0 of the pod is not eth0 of the node.
  const words = `${on} ${message}`.split(/[^\w.:/-]+/).map((word) => word.replace(/[.:]$/, ''))
  return names.some(
    (name) => words.includes(name) || (/^[0-9a-f]{13}$/.test(name) && `${on} ${message}`.includes(name)),
  )
}

/** A pod without record, sandbox and log line. */
export function isUnknown({ sandboxes, attachments, names }: PodFacts, log: readonly LoggedError[]): boolean {
  const isLogged = log.some(({ pods }) => pods.some((pod) => names.includes(pod)))
  return sandboxes.length + attachments.length === 0 && !isLogged
}
