// SPDX-License-Identifier: Apache-2.0
// Records of attachments on disk. `pending` holds what a call works on, what a killed call left, and what could not be
// removed; `attachments` holds finished ones. Finishing is one rename, so a later call finds what a killed one left by
// listing one directory. The life of a record:
//
//   intent      pending, no spec                 ADD has the ids; reservations are links to this file
//   decided     pending, with spec               something may be in the kernel
//   attached    in attachments                   complete
//   leaving     pending, isLeaving               DEL or an undo is at work, or was killed
//   left        pending, isLeaving and `left`    something could not be removed: a later call tries again
//   found again in attachments, no netns path    written by state/recover.ts from link alias and comments

import { renameSync } from 'node:fs'
import { CniError, Code } from '../cni/errors.ts'
import { isObject, parseObject } from '../cni/json.ts'
import type { PodNames } from '../config/network-conf.ts'
import { shortId } from '../drivers/names.ts'
import { type AttachmentId, type NetworkSpec, type Spec, sameId } from '../drivers/spec.ts'
import { type NetnsIdentity, netnsState } from '../kernel/netns.ts'
import { bootId, linkExists } from '../kernel/proc.ts'
import { hasEnded, type ProcessIdentity } from '../process/clock.ts'
import {
  createText,
  isTaken,
  limitBytes,
  makeDirectory,
  namesIn,
  removeFile,
  sweepTemporaryFiles,
  writeText,
} from './files.ts'
import {
  finishedFile,
  networkDirectory,
  networkFile,
  networkNames,
  networkParts,
  pendingFile,
  readOwnText,
  recordName,
  setAside,
  stateRoot,
} from './layout.ts'

/** Raised when the shape changes. A record of another format holds its reservations, and DEL works without it. */
export const recordFormat = 3

export interface AttachmentRecord {
  readonly format: number
  readonly id: AttachmentId
  readonly writer: ProcessIdentity
  readonly netns: NetnsIdentity
  /** ISO 8601. */
  readonly createdAt: string
  readonly pod?: PodNames
  /** A person, by `trestle add`; absent: a runtime. */
  readonly askedBy?: 'hand'
  /** The IPAM plugin that was delegated to, and the configuration that it got. */
  readonly delegated?: { readonly type: string; readonly stdin: string }
  /** What was decided; absent in an intent record and in one of another format. */
  readonly spec?: Spec
  /** A DEL works on it, or could not finish: who sets rules up leaves it out. */
  readonly isLeaving?: true
  /** What could not be removed. */
  readonly left?: readonly string[]
}

/** Writes the intent record of this call; false where there is one. */
export function createIntent(record: AttachmentRecord): boolean {
  return createText(pendingFile(record.id), recordText(record))
}

export function writePending(record: AttachmentRecord): void {
  writeText(pendingFile(record.id), recordText(record))
}

export function writeFinished(record: AttachmentRecord): void {
  writeText(finishedFile(record.id), recordText(record))
}

function recordText(record: AttachmentRecord): string {
  const text = JSON.stringify(record)
  if (Buffer.byteLength(text) <= limitBytes) return text
  const message = `the attachment is too large: its record would have ${text.length} bytes`
  throw new CniError(Code.invalidConfig, 'attachment-too-large', message, {
    details: `at most ${limitBytes}; use fewer host ports, routes, sysctls or DNS domains`,
  })
}

/** The attachment is complete. */
export function finishRecord(id: AttachmentId): void {
  const to = finishedFile(id)
  try {
    renameSync(pendingFile(id), to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    makeDirectory(to.slice(0, to.lastIndexOf('/')))
    renameSync(pendingFile(id), to)
  }
}

/** Removes every record of the attachment. */
export function forgetRecord(id: AttachmentId): void {
  removeFile(finishedFile(id))
  removeFile(pendingFile(id))
}

/** The record of an attachment: the finished one, or that of a call in progress or killed. */
export function findRecord(id: AttachmentId): AttachmentRecord | undefined {
  // An ADD takes it from pending to finished, a DEL back: one that was on its way is found by the third look.
  return readRecord(finishedFile(id)) ?? readRecord(pendingFile(id)) ?? readRecord(finishedFile(id))
}

export function findPending(id: AttachmentId): AttachmentRecord | undefined {
  return readRecord(pendingFile(id))
}

export function findFinished(id: AttachmentId): AttachmentRecord | undefined {
  return readRecord(finishedFile(id))
}

/** The records of a network, finished and pending. */
export function recordsOf(network: string): readonly AttachmentRecord[] {
  const directory = networkDirectory(network)
  const found = new Map<string, AttachmentRecord>()
  // `pending` before and after: a record that is missed on its way would be taken for gone.
  for (const part of ['pending', 'attachments', 'pending']) {
    for (const record of readAll(`${directory}/${part}`))
      if (!found.has(recordName(record.id))) found.set(recordName(record.id), record)
  }
  return [...found.values()]
}

export function pendingRecordsOf(network: string): readonly AttachmentRecord[] {
  return readAll(`${networkDirectory(network)}/pending`)
}

/** Removes temporary files that killed calls have left. */
export function sweepState(): void {
  const ofNetworks = networkNames().flatMap((name) => networkParts.map((part) => `${networkDirectory(name)}${part}`))
  for (const directory of [stateRoot(), ...ofNetworks]) sweepTemporaryFiles(directory)
}

export function allRecords(): readonly AttachmentRecord[] {
  return networkNames().flatMap(recordsOf)
}

/** How many attachments have a record, without reading any. Chained ones and leases have no link of ours. */
export function countMainRecords(): number {
  let count = 0
  for (const network of networkNames()) {
    const [finished = [], pending = []] = ['attachments', 'pending'].map((part) =>
      namesIn(`${networkDirectory(network)}/${part}`),
    )
    const isMain = (name: string) => !name.startsWith('.') && name.split(':').length === 2
    count += [...new Set([...finished, ...pending])].filter(isMain).length
  }
  return count
}

function readAll(directory: string): readonly AttachmentRecord[] {
  return namesIn(directory)
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) => readRecord(`${directory}/${name}`) ?? [])
}

/** One that cannot be read is set aside. */
function readRecord(file: string): AttachmentRecord | undefined {
  const text = readOwnText(file)
  if (text === undefined) return undefined
  const record = decodeRecord(text)
  if (record !== undefined && recordName(record.id) === file.slice(file.lastIndexOf('/') + 1)) return record
  setAside(file)
  return undefined
}

/** Of a record of another format only whose it is and who wrote it is read; undefined for what is no record. */
export function decodeRecord(text: string): AttachmentRecord | undefined {
  const found = parseObject(text)
  const { format, id, key, writer, netns } = (found ?? {}) as Record<string, unknown>
  const whose = isObject(id) ? id : key
  if (typeof format !== 'number' || !isObject(whose) || !isObject(writer)) return undefined
  const texts = ['network', 'containerId', 'ifName', 'role'].map((name) => whose[name])
  if (!texts.every((each) => typeof each === 'string' && each !== '')) return undefined
  if (typeof writer['bootId'] !== 'string') return undefined
  const isOwnFormat = format === recordFormat && isObject(id)
  if (isOwnFormat) {
    const { spec, ...rest } = found as { spec?: unknown }
    // A spec that is damaged counts as none: a DEL goes by the kernel then.
    const isWhole = isObject(spec) && Array.isArray(spec['addresses'])
    return (isWhole ? found : rest) as unknown as AttachmentRecord
  }
  const { path, inode } = isObject(netns) ? netns : {}
  return {
    format,
    id: whose as unknown as AttachmentId,
    writer: writer as unknown as ProcessIdentity,
    netns: { path: typeof path === 'string' ? path : '', inode: typeof inode === 'number' ? inode : 0 },
    createdAt: '',
  }
}

/** Whether a call of its own still works on the record. */
export function isBeingWritten({ writer, createdAt }: AttachmentRecord): boolean {
  return !hasEnded(writer, Date.parse(createdAt))
}

export function isOfEarlierBoot({ writer }: AttachmentRecord): boolean {
  return writer.bootId !== bootId()
}

/**
 * Whether the pod is gone: of an earlier boot, or its namespace is gone. A namespace whose path is gone may live on, with
 * a process in it: the host end of its veth goes only with it. Of a record that was found again only that link is known.
 */
export function isDead(record: AttachmentRecord): boolean {
  if (isOfEarlierBoot(record)) return true
  const hostEnd = record.spec?.host?.name ?? record.spec?.chained?.hostLink
  const hasLink = hostEnd !== undefined && linkExists(hostEnd)
  if (record.netns.path === '') return hostEnd !== undefined && !hasLink
  return netnsState(record.netns) === 'gone' && !hasLink
}

/** `eth0 of container c1 (pod shop/web)`. */
export function describeRecord({ id, pod }: AttachmentRecord): string {
  const ofPod = pod === undefined ? '' : ` (pod ${pod.namespace}/${pod.name})`
  return `${id.ifName} of container ${id.containerId}${ofPod}`
}

/** Whether it is the same record: a later attachment of the same ids has another time or writer. */
export function isSameRecord(a: AttachmentRecord, b: AttachmentRecord): boolean {
  return sameId(a.id, b.id) && a.createdAt === b.createdAt && a.netns.inode === b.netns.inode
}

// What the attachments of a network share.

export function writeNetwork(network: NetworkSpec): void {
  writeText(networkFile(network), JSON.stringify({ format: recordFormat, ...network }))
}

export function removeNetwork(network: Pick<NetworkSpec, 'name' | 'role'>): void {
  removeFile(networkFile(network))
}

/** The network as it was set up last; undefined where it was not. */
export function readNetwork(network: {
  readonly name: string
  readonly role: 'main' | 'chained'
}): NetworkSpec | undefined {
  const file = networkFile(network)
  const text = readOwnText(file)
  if (text === undefined) return undefined
  const spec = parseObject(text)
  const isOwn =
    spec?.['format'] === recordFormat &&
    typeof spec['name'] === 'string' &&
    shortId(spec['name']) === shortId(network.name)
  if (isOwn && Array.isArray(spec['ranges'])) return spec as unknown as NetworkSpec
  if (spec?.['format'] === undefined || spec['format'] === recordFormat) setAside(file)
  return undefined
}

/** Every network that was set up; where its file was lost, as its newest record has it. */
export function knownNetworks(records: readonly AttachmentRecord[] = allRecords()): readonly NetworkSpec[] {
  // The record of a call at work says what it wants, not what there is.
  const finished = records.filter(({ id }) => isTaken(finishedFile(id)))
  return networkNames().flatMap((name) =>
    (['main', 'chained'] as const).flatMap((role) => {
      const known = isTaken(networkFile({ name, role })) ? readNetwork({ name, role }) : undefined
      if (known !== undefined) return known
      const own = finished.filter(({ id, spec }) => shortId(id.network) === name && spec?.network?.role === role)
      const newest = own.filter((record) => !isDead(record)).toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1))[0]
      return newest?.spec?.network ?? []
    }),
  )
}
