// SPDX-License-Identifier: Apache-2.0
// Records on disk. `pending` holds attachments being made or yet to be cleaned up, `attachments` finished ones:
// finishing is one rename, and a later call finds what a killed one left by listing one directory.

import { existsSync, renameSync, rmSync } from 'node:fs'
import { CniError } from '../../cni/error.ts'
import { sharesRules } from '../../drivers/network.ts'
import { type AttachmentKey, encodeNetwork, type NetworkSpec, network as networkKind } from '../../model/attachment.ts'
import { decodeFile, encodeFile } from '../../model/kinds.ts'
import { networkDirName, recordFileName } from '../../model/names.ts'
import { type AttachmentRecord, decodeRecord } from '../../model/record.ts'
import {
  createText,
  limitBytes,
  makeDirectory,
  type NamesIn,
  namesIn,
  readableText,
  writeText,
} from '../files/files.ts'
import {
  asideBelow,
  asideCopies,
  type NetworkFiles,
  networkDirectories,
  networkParts,
  readState,
} from '../files/state.ts'

/** A record and the file it is in. */
export interface StoredRecord {
  readonly file: string
  readonly isPending: boolean
  readonly record: AttachmentRecord
}

/** Writes the intent record of this call; false when there is one already. */
export function writeIntent(files: NetworkFiles, record: AttachmentRecord): boolean {
  return createText(pendingFile(files, record.key), textOf(record))
}

/** The intent record's file: what reservations are linked to. */
export function pendingFile(files: NetworkFiles, key: AttachmentKey): string {
  return `${files.pending}/${recordFileName(key)}`
}

/** Writes the intent record anew, with everything that is about to be made, or with its pending cleanup. */
export function writePending(files: NetworkFiles, record: AttachmentRecord): void {
  writeText(pendingFile(files, record.key), textOf(record))
}

/** Throws CniError 7 for a record that could not be read again: a DEL would not know what to remove. */
function textOf(record: AttachmentRecord): string {
  const text = encodeFile(record)
  if (Buffer.byteLength(text) <= limitBytes) return text
  throw new CniError(
    'attachment-too-large',
    `the attachment is too large: its record would have ${text.length} bytes`,
    {
      details: `at most ${limitBytes}; use fewer host ports, routes, sysctls or DNS domains`,
    },
  )
}

/** The attachment is finished. */
export function finish(files: NetworkFiles, key: AttachmentKey): void {
  const to = `${files.attachments}/${recordFileName(key)}`
  try {
    renameSync(pendingFile(files, key), to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    makeDirectory(files.attachments)
    renameSync(pendingFile(files, key), to)
  }
}

/**
 * Writes the finished record of an attachment that was there before it, and removes its intent record. It is
 * never pending with a spec: settling a killed call tears down what such an intent record describes.
 */
export function writeAdopted(files: NetworkFiles, record: AttachmentRecord): void {
  writeFinished(files, record)
  rmSync(pendingFile(files, record.key), { force: true })
}

/** Writes a finished record anew. */
export function writeFinished(files: NetworkFiles, record: AttachmentRecord): void {
  writeText(`${files.attachments}/${recordFileName(record.key)}`, textOf(record))
}

/** Removes the finished record; a pending cleanup stays. */
export function forgetFinished(files: NetworkFiles, key: AttachmentKey): void {
  rmSync(`${files.attachments}/${recordFileName(key)}`, { force: true })
}

/** Removes every record of the attachment. */
export function forget(files: NetworkFiles, key: AttachmentKey): void {
  rmSync(`${files.attachments}/${recordFileName(key)}`, { force: true })
  rmSync(pendingFile(files, key), { force: true })
}

/** The finished record of an attachment, or what a call in progress or a killed one left. */
export function findRecords(files: NetworkFiles, key: AttachmentKey): readonly StoredRecord[] {
  const name = recordFileName(key)
  const intent = readStored(`${files.pending}/${name}`, true)
  const finished = readStored(`${files.attachments}/${name}`, false)
  // ADD takes a record from pending to finished, DEL back: one that was on its way is pending by now.
  const pending = intent ?? (finished === undefined ? readStored(`${files.pending}/${name}`, true) : undefined)
  return [finished, pending].filter((stored) => stored !== undefined)
}

/** The finished record of an attachment alone. */
export function findFinished({ attachments }: NetworkFiles, key: AttachmentKey): AttachmentRecord | undefined {
  return readStored(`${attachments}/${recordFileName(key)}`, false)?.record
}

/** Whether the attachment had a record that cannot be read: it was there until its DEL, and what it had is its own. */
export function hasUnreadable(files: NetworkFiles, key: AttachmentKey): boolean {
  return unreadableFiles(files, key).length > 0
}

/** The roles of the network's attachments whose records could not be read, by the names of the files. */
export function unreadableRoles({ attachments }: NetworkFiles): readonly AttachmentKey['role'][] {
  return asideBelow(attachments).map((file) => {
    const [, role] = /:(chained|ipam)\.\d+$/.exec(file) ?? []
    return role === 'chained' || role === 'ipam' ? role : 'main'
  })
}

/** Removes what is left of such a record. */
export function forgetUnreadable(files: NetworkFiles, key: AttachmentKey): void {
  for (const file of unreadableFiles(files, key)) rmSync(file, { force: true, recursive: true })
}

/** Set aside as a rule, or still in place where nothing can be moved. */
function unreadableFiles(files: NetworkFiles, key: AttachmentKey): readonly string[] {
  const places = [files.attachments, files.pending].map((directory) => `${directory}/${recordFileName(key)}`)
  const inPlace = places.filter((file) => existsSync(file) && readStored(file, false) === undefined && existsSync(file))
  return [...places.flatMap((file) => asideCopies(file)), ...inPlace]
}

/** All pending records of a network: calls in progress, killed calls, and pending cleanups. */
export function pendingRecords(files: NetworkFiles): readonly StoredRecord[] {
  return recordsIn(files.pending, true)
}

/**
 * Every record of a network, finished ones first. None is missed that is on its way between the two directories, in
 * either direction (findRecords): one that is missed is taken for gone, and what it has is given to others.
 */
export function recordsOf(files: NetworkFiles): readonly StoredRecord[] {
  const pending = pendingRecords(files)
  const finished = recordsIn(files.attachments, false)
  const seen = new Set([...pending, ...finished].map(({ record }) => recordFileName(record.key)))
  return [...finished, ...pending, ...recordsIn(files.pending, true, (name) => !seen.has(name))]
}

/** Every record of every network. */
export function allRecords(): readonly StoredRecord[] {
  return networkDirectories().flatMap(recordsOf)
}

/**
 * Whether one of all records meets the test; no more of them are read than it takes. None is missed that an ADD
 * finishes meanwhile, which goes from pending to finished.
 */
export function someRecord(test: (stored: StoredRecord) => boolean): boolean {
  const isMet = (directory: string, isPending: boolean) =>
    namesIn(directory).some((name) => {
      const stored = name.startsWith('.') ? undefined : readStored(`${directory}/${name}`, isPending)
      return stored !== undefined && test(stored)
    })
  return networkDirectories().some((files) => isMet(files.pending, true) || isMet(files.attachments, false))
}

/** What the network's attachments share, as it was last written. One under another's name is not believed. */
export function readNetwork(files: NetworkFiles): NetworkSpec | undefined {
  return readState(files.network, (text) => {
    const network = decodeFile(networkKind, text)
    return network && isOf(files, network) ? network : undefined
  })
}

/** The same; where it was lost, as an attachment remembers it. `names`: where records have been looked at. */
export function knownNetwork(files: NetworkFiles, names: NamesIn = namesIn): NetworkSpec | undefined {
  return readNetwork(files) ?? (isChainedPart(files) ? chainedNetworkOfRecords(files, names) : networkOfRecords(files))
}

/** The newest record knows most. Without pods there is none, with pods the file is there as a rule. */
function networkOfRecords(files: NetworkFiles): NetworkSpec | undefined {
  const names = namesIn(files.attachments).filter((name) => !roleSuffix.test(name))
  const records = names.flatMap((name) => readStored(`${files.attachments}/${name}`, false)?.record ?? [])
  const newest = records.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1))
  return newest.flatMap(({ network }) => network ?? []).find((network) => isOf(files, network))
}

/** Most networks have no chained part, or one that has no file: every ADD comes here, so one record has to do. */
function chainedNetworkOfRecords(files: NetworkFiles, names: NamesIn): NetworkSpec | undefined {
  for (const name of names(files.attachments).filter((each) => each.endsWith(':chained'))) {
    const network = readStored(`${files.attachments}/${name}`, false)?.record.network
    if (network !== undefined && isOf(files, network)) return sharesRules(network) ? network : undefined
  }
  return undefined
}

/** What the names of other records than those of main attachments end with (model/names.ts). */
const roleSuffix = /:(chained|ipam)$/

/** Writes what the network's attachments share; what another release has added to it stays. */
export function writeNetwork(files: NetworkFiles, network: NetworkSpec): void {
  writeText(files.network, encodeNetwork(network, readableText(files.network)))
}

/** The shared parts of all networks. `names`: where records have been looked at. */
export function allNetworks(names?: NamesIn): readonly NetworkSpec[] {
  return networkParts().flatMap((files) => knownNetwork(files, names) ?? [])
}

/** What chained attachments share has a name of its own (drivers/chained.ts). */
function isOf(files: NetworkFiles, { name }: NetworkSpec): boolean {
  const directory = files.directory.slice(files.directory.lastIndexOf('/') + 1)
  const isChained = isChainedPart(files)
  if (name.endsWith('/chained') !== isChained) return false
  return networkDirName(isChained ? name.slice(0, -'/chained'.length) : name) === directory
}

/** `going`: commands/teardown/remove-network.ts. */
function isChainedPart({ network }: NetworkFiles): boolean {
  return /\/chained(\.going)?\.json$/.test(network)
}

function recordsIn(directory: string, isPending: boolean, isMeant = (_: string) => true): readonly StoredRecord[] {
  return namesIn(directory)
    .filter((name) => !name.startsWith('.') && isMeant(name))
    .flatMap((name) => readStored(`${directory}/${name}`, isPending) ?? [])
}

/** A record under another's name is not read. */
function readStored(file: string, isPending: boolean): StoredRecord | undefined {
  return readState(file, (text) => {
    const record = decodeRecord(text)
    const isOwn = record !== undefined && recordFileName(record.key) === file.slice(file.lastIndexOf('/') + 1)
    return isOwn ? { file, isPending, record } : undefined
  })
}
