// SPDX-License-Identifier: Apache-2.0
// An attachment that exists: found by network and pod in libcni's cache, checked, and removed.

import { CniError } from '../../cni/error.ts'
import { atLeast, isSupported } from '../../cni/result.ts'
import { writeResult } from '../../cni/result-shapes.ts'
import { someRecord } from '../../core.ts'
import { sameKey } from '../../model/record.ts'
import type { CachedAttachment } from '../../plan/upstream/libcni-cache.ts'
import type { Run } from '../../system/process/runner.ts'
import { type Attachment, delList, type NetworkList, readNetworkList } from '../node/list.ts'
import { isOwnType } from '../node/own-type.ts'
import type { Input } from '../shell/command.ts'
import { askedIfName, networkAndPod } from './asked.ts'
import { runtimeFor } from './call.ts'
import { attachmentsOf, containerIdOf, forget, hasEntry, isByHand, refuseForeign } from './kept.ts'
import type { Network } from './network.ts'
import { isMade, isThere, type Pod, removeMade } from './pod.ts'

/** An attachment with the list that made it, and the result of its ADD for prevResult. */
interface Attached {
  readonly list: NetworkList
  readonly pod: Pod
  readonly attachment: Attachment
  readonly prevResult: unknown
}

/** The attachment that a command names. Throws CniError 7 where the pod has none, 4 where it is a runtime's. */
export function attachedBy(input: Input): Attached {
  const { network: find, pod, name = find().list.name } = networkAndPod(input)
  const ifName = askedIfName(input)
  isThere(pod)
  refuseForeign(pod)
  const ofPod = attachmentsOf(pod).filter(isByHand)
  const [found, other] = ofPod.filter((each) => each.network === name && (ifName ?? each.ifName) === each.ifName)
  if (found !== undefined && other === undefined) {
    const isOfFile = found.list === undefined || input.values['conf'] !== undefined
    return attachedOf(isOfFile ? find().list : listOf(found, find), pod, found)
  }
  if (found !== undefined) {
    const names = ofPod.filter(({ network }) => network === name).map((each) => each.ifName)
    throw new CniError('not-attached', `${pod.word} has ${name} several times: add --ifname ${names.join(' or ')}`)
  }
  const key = { containerId: containerIdOf(pod.paths[0]), ifName: ifName ?? 'eth0', network: find().list.name }
  // An entry that cannot be read, or an ADD that was killed before it wrote one. DEL of most plugins removes the
  // interface, whoever made it: of a pod that `add` did not make, or of another network, it may not run.
  const isOther = ofPod.some((each) => each.ifName === key.ifName)
  if (!hasEntry(key) && (!isMade(pod) || isOther)) throw notAttached(name, pod, ofPod)
  const attachment = { containerId: key.containerId, netns: pod.paths[0], ifName: key.ifName }
  return { list: find().list, pod, attachment, prevResult: undefined }
}

export function attachedOf(list: NetworkList, pod: Pod, cached: CachedAttachment): Attached {
  const { containerId, netns, ifName, args, capabilityArgs, result } = cached
  const hasPrevious = isSupported(list.cniVersion) && atLeast(list.cniVersion, '0.4.0')
  const prevResult: unknown = hasPrevious ? JSON.parse(writeResult(result, list.cniVersion)) : undefined
  return { list, pod, attachment: { containerId, netns, ifName, args, capabilityArgs }, prevResult }
}

/**
 * The list as it was at ADD, as CRI-O takes it (ocicni): the file may have changed since. Of a pod that `adopt` took
 * from plugins of others it is the file's, whose plugin has the record.
 */
function listOf(found: CachedAttachment, find: () => Network): NetworkList {
  const kept = readNetworkList(JSON.stringify(found.list))
  const isOurs = ({ plugins }: NetworkList) => plugins.some(({ type }) => isOwnType(type))
  const { network, containerId, ifName } = found
  const key = { network, containerId, ifName, role: 'main' } as const
  if (isOurs(kept) || !someRecord(({ record }) => sameKey(record.key, key))) return kept
  const { list } = find()
  return isOurs(list) ? list : kept
}

function notAttached(name: string, pod: Pod, others: readonly CachedAttachment[]): CniError {
  const names = others.map(({ network, ifName }) => `${network} (${ifName})`)
  const has = names.length === 0 ? 'it has no network by hand' : `it has ${names.join(', ')}`
  return new CniError('not-attached', `${pod.word} is not attached to ${name}: ${has}`, {
    details: '`trestle nets` lists the attachments by hand; nothing was run',
  })
}

/** Runs DEL, and forgets the attachment. Returns whether the namespace went, too: made by `add`, and without others. */
export async function detach({ run, undo }: { run: Run; undo: Run }, attached: Attached): Promise<boolean> {
  const { list, pod, attachment, prevResult } = attached
  await delList(runtimeFor(list, run), attachment, prevResult)
  forget({ network: list.name, ...attachment })
  return attachmentsOf(pod).length === 0 && (await removeMade(undo, pod))
}
