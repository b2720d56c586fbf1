// SPDX-License-Identifier: Apache-2.0
// Attachments in libcni's cache, which cnitool and trestle share: the same container id for a namespace, the same files
// (libcni/api.go, cachedInfo; cnitool/cmd/root.go; read by system/upstream/read-libcni-cache.ts).

import { createHash } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { CniError } from '../../cni/error.ts'
import { allRecords } from '../../core.ts'
import { type CachedAttachment, cacheFileName } from '../../plan/upstream/libcni-cache.ts'
import { makeDirectory, writeText } from '../../system/files/files.ts'
import { netnsState } from '../../system/kernel/netns.ts'
import { allCachedAttachments } from '../../system/upstream/read-libcni-cache.ts'
import type { Attachment } from '../node/list.ts'
import type { Network } from './network.ts'
import { inodeOf, type Pod } from './pod.ts'

const directory = '/var/lib/cni/results'

type Key = Pick<CachedAttachment, 'network' | 'containerId' | 'ifName'>

/** The container id that cnitool gives a namespace. */
export function containerIdOf(path: string): string {
  return `cnitool-${createHash('sha512').update(path).digest('hex').slice(0, 20)}`
}

/** Whether cnitool or trestle made the attachment by hand. */
export function isByHand({ containerId }: Pick<CachedAttachment, 'containerId'>): boolean {
  return /^cnitool-[\da-f]{20}$/.test(containerId)
}

/** Keeps an attachment and its result as libcni does. */
export function keep({ list, config }: Network, attachment: Attachment, result: unknown): void {
  const { containerId, ifName, netns, args = [], capabilityArgs = {} } = attachment
  makeDirectory(directory)
  const entry = {
    kind: 'cniCacheV1',
    containerId,
    config: Buffer.from(config).toString('base64'),
    ifName,
    networkName: list.name,
    netns,
    ...(args.length === 0 ? {} : { cniArgs: args }),
    ...(Object.keys(capabilityArgs).length === 0 ? {} : { capabilityArgs }),
    result,
  }
  writeText(fileOf({ network: list.name, containerId, ifName }), JSON.stringify(entry))
}

export function forget(key: Key): void {
  rmSync(fileOf(key), { force: true })
}

/** True also for an entry that cannot be read. */
export function hasEntry(key: Key): boolean {
  return existsSync(fileOf(key))
}

function fileOf({ network, containerId, ifName }: Key): string {
  return `${directory}/${cacheFileName(network, containerId, ifName)}`
}

/** The attachments of a pod: of its namespace, or of its path where the namespace is gone. */
export function attachmentsOf({ paths }: Pod): readonly CachedAttachment[] {
  const inode = inodeOf(paths[0])
  return allCachedAttachments().filter(({ netns }) => {
    return paths.includes(netns) || (inode !== undefined && netns !== '' && inodeOf(netns) === inode)
  })
}

/** Throws CniError 4 where a runtime has attached the pod: only the runtime's own call may change it. */
export function refuseForeign(pod: Pod): void {
  const inode = inodeOf(pod.paths[0])
  const recorded = allRecords()
    .map(({ record }) => record)
    .filter(({ netns }) => netns.inode === inode && netnsState(netns) === 'live')
  const all = [...attachmentsOf(pod), ...recorded.map(({ key }) => key)]
  const foreign = all.find((each) => !isByHand(each))
  if (foreign === undefined) return
  const { network, containerId, ifName } = foreign
  throw new CniError('pod-of-a-runtime', `POD ${pod.word} has ${ifName} of network ${network} by another caller`, {
    details: `container ${containerId}: change it by its runtime (crictl, ctr, podman); nothing was changed`,
  })
}
