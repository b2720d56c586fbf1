// SPDX-License-Identifier: Apache-2.0
// Which findings concern one pod: those that name it, and those of the node, which concern all. Findings of other pods,
// and errors that others were logged with, do not.

import type { Finding } from '../checks/finding.ts'
import type { PodFacts } from './pod-facts.ts'

/** An error of the last hour, and the pods that it was logged with. */
interface Logged {
  readonly id: string
  readonly pods: readonly string[]
}

/** Findings that name a pod, its address, its port or its link. */
const ofOnePod: readonly string[] = [
  'interface-lost',
  'pod-differs',
  'port-differs',
  'limit-missing',
  'pending-cleanup',
  'route-elsewhere',
  'mtu-larger',
  'port-taken',
  'record-partial',
]

/** What dead pods left is nothing to one that lives. */
const ofDeadPods: readonly string[] = ['dead-attachments', 'reservations-leaked', 'orphans', 'unsure', 'other-host']

/** Whether a finding is about this pod or the whole node. `log`: what was logged, with the pods of each error. */
export function concerns(pod: PodFacts, { id, group, on, seen }: Finding, log: readonly Logged[]): boolean {
  if (group === 'log') {
    const pods = log.find((each) => each.id === id)?.pods ?? []
    return pods.length === 0 || pods.some((name) => pod.names.includes(name))
  }
  const words = `${on} ${seen}`
  const links = pod.attachments.flatMap((each) => each.links.filter(isOnNode).map((text) => text.split(' ')[0] ?? ''))
  const addresses = pod.attachments.flatMap((each) => each.addresses.map((text) => text.replace(/\/.*/, '')))
  const isNamed = [...pod.names, ...links, ...addresses].some((name) => name !== '' && hasWord(words, name))
  if (ofOnePod.includes(id)) return isNamed
  return isNamed || !ofDeadPods.includes(id)
}

/** eth0 of the pod is not that of the node. */
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

/** What is known nowhere: neither recorded, nor listed, nor logged. */
export function isUnknown({ sandboxes, attachments, names }: PodFacts, log: readonly Logged[]): boolean {
  const isLogged = log.some(({ pods }) => pods.some((pod) => names.includes(pod)))
  return sandboxes.length + attachments.length === 0 && !isLogged
}
