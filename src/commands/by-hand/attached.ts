// SPDX-License-Identifier: Apache-2.0
// An attachment that a person names by network, pod and interface: found in libcni's cache, and removed.

import { linkNameProblem, unsafeNameProblem } from '../../cni/addresses.ts'
import { atLeast, isSupported, writeResult } from '../../cni/results.ts'
import type { Run } from '../../process/runner.ts'
import { type Input, type Option, UsageError } from '../command.ts'
import { failureOf } from '../failure.ts'
import { type NetworkList, readNetworkList } from '../network-list.ts'
import { type Attachment, delList } from '../plugin-runtime.ts'
import { type CachedAttachment, forgetAttachment } from './libcni-cache.ts'
import { networkNamed } from './network.ts'
import { runtimeFor } from './plugin-calls.ts'
import { attachmentsOf, inodeOf, isByHand, isThere, type Pod, podOf, refuseForeign, removePod } from './pod.ts'

export const ifNameOption = {
  ifname: { type: 'string', short: 'i', value: 'NAME', help: "the pod's interface; default: CNI_IFNAME, else eth0" },
} as const satisfies Readonly<Record<string, Option>>

/** The name of the network, and the pod, of `NET POD`. */
export function networkAndPod({ words: [name, word] }: Input): { readonly name: string; readonly pod: Pod } {
  if (name === undefined || word === undefined) throw new UsageError('name a network and a pod')
  return { name, pod: podOf(word) }
}

/** The interface of the option or variable, if there is one. Throws UsageError for an invalid name. */
export function askedIfName({ values }: Input): string | undefined {
  const name = (values['ifname'] as string | undefined) ?? (process.env['CNI_IFNAME'] || undefined)
  const problem = name === undefined ? undefined : (linkNameProblem(name) ?? unsafeNameProblem(name))
  if (problem !== undefined) throw new UsageError(`--ifname ${JSON.stringify(name)}: ${problem}`)
  return name
}

/** An attachment with the list that made it, and the result of its ADD for prevResult. */
export interface Attached {
  readonly list: NetworkList
  readonly pod: Pod
  readonly attachment: Attachment
  readonly prevResult: unknown
  readonly madeInode?: number
}

/**
 * The attachment that a command names; undefined where the pod has none. Throws CniError 7 where it has several, 4 where it
 * is a runtime's.
 */
export function attachedBy(input: Input): Attached | undefined {
  const { name, pod } = networkAndPod(input)
  const ifName = askedIfName(input)
  isThere(pod)
  refuseForeign(pod)
  const ofPod = attachmentsOf(pod).filter(isByHand)
  const [found, other] = ofPod.filter((each) => each.network === name && (ifName ?? each.ifName) === each.ifName)
  if (found !== undefined && other !== undefined) {
    const names = ofPod.filter(({ network }) => network === name).map((each) => each.ifName)
    throw failureOf('not-attached', `${pod.word} has ${name} several times: add --ifname ${names.join(' or ')}`)
  }
  if (found === undefined) return undefined
  // The list as it was at ADD, as CRI-O takes it (ocicni): the file may have changed since.
  const list = found.list === undefined ? networkNamed(name).list : readNetworkList(JSON.stringify(found.list))
  return attachedOf(list, pod, found)
}

export function attachedOf(list: NetworkList, pod: Pod, cached: CachedAttachment): Attached {
  const { containerId, netns, ifName, args, capabilityArgs, result, madeInode } = cached
  const hasPrevious = isSupported(list.cniVersion) && atLeast(list.cniVersion, '0.4.0')
  const prevResult: unknown = hasPrevious ? JSON.parse(writeResult(result, list.cniVersion)) : undefined
  const attachment = { containerId, netns, ifName, args, capabilityArgs }
  return { list, pod, attachment, prevResult, ...(madeInode === undefined ? {} : { madeInode }) }
}

/** What the pod has, in words. */
export function networksOf(pod: Pod): string {
  const names = attachmentsOf(pod).map(({ network, ifName }) => `"${network}" (${ifName})`)
  return names.length === 0 ? 'it has no network by hand' : `it has ${names.join(', ')}`
}

/** Runs DEL, and forgets the attachment. Returns whether the namespace went, too: made by `add`, and without others. */
export async function detach(run: Run, { list, pod, attachment, prevResult, madeInode }: Attached): Promise<boolean> {
  await delList(runtimeFor(list, run), attachment, prevResult)
  forgetAttachment({ network: list.name, ...attachment })
  const isLast = attachmentsOf(pod).length === 0
  if (!isLast || madeInode === undefined || inodeOf(pod.paths[0]) !== madeInode) return false
  await removePod(run, pod)
  return true
}
