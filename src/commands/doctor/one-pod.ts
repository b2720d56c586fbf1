// SPDX-License-Identifier: Apache-2.0
// `trestle doctor --pod`: what is known of one pod, and which findings are about it.

import { oneLine } from '../../cni/errors.ts'
import { type AttachmentRecord, allRecords, isDead } from '../../state/records.ts'
import type { Finding } from '../findings.ts'
import { type PodInterface, podsIn } from '../network-picture.ts'
import { type LoggedError, sandboxFailed } from './log.ts'
import type { Node } from './observed-node.ts'

/** `asked`: NAMESPACE/NAME or the beginning of a container id. `names`: the pod's names in findings and logs. */
export interface PodFacts {
  readonly asked: string
  readonly sandboxes: readonly string[]
  readonly interfaces: readonly PodInterface[]
  /** Its namespace is gone, and no DEL has come. */
  readonly isDead: boolean
  readonly names: readonly string[]
}

/** The shortest prefix that counts as a container id; crictl prints longer ones. */
const leastId = 6

export function lookAtPod({ sandboxes: all, hasState, host }: Node, asked: string): PodFacts {
  // All ids of pods by hand begin alike.
  const isIdOf = (id: string) =>
    asked.length >= leastId && id.replace('cnitool-', '').startsWith(asked.replace('cnitool-', ''))
  const isNamed = ({ id, pod }: AttachmentRecord) =>
    isIdOf(id.containerId) || (pod !== undefined && `${pod.namespace}/${pod.name}` === asked)
  const sandboxes = all.filter(({ id, pod }) => pod === asked || isIdOf(id))
  const pods = hasState ? podsIn([...host.links.values()]) : []
  const interfaces = pods.filter(({ pod, containerId, isOurs }) => {
    return isOurs && (pod === asked || isIdOf(containerId) || sandboxes.some(({ id }) => id === containerId))
  })
  const known = interfaces.flatMap(({ pod, containerId }) => [containerId.slice(0, 13), pod])
  const listed = sandboxes.flatMap(({ id, pod }) => [id.slice(0, 13), pod])
  return {
    asked,
    sandboxes: sandboxes.map(({ id, isReady }) => `${id.slice(0, 13)} (${isReady ? 'ready' : 'not ready'})`),
    interfaces,
    isDead: hasState && allRecords().some((record) => isDead(record) && isNamed(record)),
    names: [...new Set([asked, ...known, ...listed])],
  }
}

/** The report's lines about a pod. */
export function podLines({ asked, sandboxes, interfaces, isDead, names }: PodFacts, log: readonly LoggedError[]) {
  const facts: (readonly [title: string, text: string])[] = sandboxes.map((text) => ['sandbox', text])
  if (interfaces.length === 0 && isDead) {
    facts.push(['network', 'its network namespace is gone, and no DEL came: `trestle gc` frees what it has'])
  } else if (interfaces.length === 0) {
    const hasFailed = log.some(({ id, pods }) => id === sandboxFailed && pods.some((pod) => names.includes(pod)))
    const why = hasFailed ? 'its ADD went well, its sandbox failed, and DEL followed' : 'no ADD of it went well here'
    facts.push(['network', `no record of trestle: ${why}`])
  }
  for (const { pod, containerId, ifName, addresses, ports, network, link, master, since } of interfaces) {
    const made = `${ifName} of container ${containerId.slice(0, 13)} of ${pod}, made by trestle, since ${since}`
    facts.push(['network', `${network}: ${made}`], ['addresses', addresses.join(' ') || 'none'])
    if (link !== undefined) facts.push(['link', `${link}${master === undefined ? '' : `, port of ${master}`}`])
    for (const port of ports) facts.push(['host port', port])
  }
  return [`pod ${asked}`, ...facts.map(([title, text]) => `  ${title.padEnd(11)}${oneLine(text)}`)]
}

/** Findings that name a pod, its address, its port or its link; of another pod they are left out. */
const ofOnePod: readonly string[] = [
  ...['interface-lost', 'pod-differs', 'pending-cleanup', 'route-elsewhere', 'mtu-larger', 'port-taken'],
  ...['addresses-inside', 'dead-attachments', 'reservations-leaked', 'orphans', 'unsure'],
]

/** Whether a finding is about this pod or the whole node. */
export function concerns(pod: PodFacts, { id, group, on, message }: Finding, log: readonly LoggedError[]): boolean {
  if (group === 'log') {
    const pods = log.find((each) => each.id === id)?.pods ?? []
    return pods.length === 0 || pods.some((name) => pod.names.includes(name))
  }
  if (!ofOnePod.includes(id)) return true
  const names = [...pod.names, ...pod.interfaces.flatMap(({ link = '', addresses }) => [link, ...addresses])]
  // 10.0.0.2 is not in 10.0.0.21; eth0 of the pod is not eth0 of the node.
  const words = `${on} ${message}`.split(/[^\w.:/-]+/).map((word) => word.replace(/[.:]$/, ''))
  return names.some(
    (name) => words.includes(name) || (/^[0-9a-f]{13}$/.test(name) && `${on} ${message}`.includes(name)),
  )
}

/** A pod without record, sandbox and log line. */
export function isUnknown({ sandboxes, interfaces, isDead, names }: PodFacts, log: readonly LoggedError[]): boolean {
  const isLogged = log.some(({ pods }) => pods.some((pod) => names.includes(pod)))
  return sandboxes.length + interfaces.length === 0 && !isDead && !isLogged
}
