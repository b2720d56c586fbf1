// SPDX-License-Identifier: Apache-2.0
// Reserved addresses and host ports on disk: of a network the former, of the node the latter. A reservation is a
// link(2) of the attachment's intent record under its name: the kernel says who was first, without a lock, and the file
// says who it was (docs/design.md, "State"). Releasing looks at the holder and removes the name in two steps, so that
// one takes a lock.

import { lstatSync } from 'node:fs'
import type { AttachmentKey } from '../../model/attachment.ts'
import { encodeFile } from '../../model/kinds.ts'
import { type AttachmentRecord, decodeRecord, intentOf, type ProcessIdentity, sameKey } from '../../model/record.ts'
import type { Reservation } from '../../plan/recovery/verdicts.ts'
import { createText, namesIn, readableText, replaceText } from '../files/files.ts'
import { networkFiles, stateRoot } from '../files/state.ts'
import type { Deadline } from '../process/runner.ts'
import { withLock } from './lock.ts'

const lockWaitMs = 5000

/** The directory of reserved host ports. */
export function portsDirectory(): string {
  return `${stateRoot()}/ports`
}

/** The file that is the reservation. */
export function reservationFile({ network, name }: Reservation): string {
  return `${directoryOf(network)}/${name}`
}

/** The lock under which the reservation is released, or made again. */
export function reservationLock({ network }: { readonly network?: string | undefined }): string {
  return network === undefined ? `${stateRoot()}/ports.lock` : networkFiles(network).lock
}

/** The intent record behind it; undefined when there is none or it cannot be read. */
export function reservationHolder(reservation: Reservation): AttachmentRecord | undefined {
  return decodeRecord(readableText(reservationFile(reservation)) ?? '')
}

/** Whether the name is taken, by whatever is there. */
export function isReserved(reservation: Reservation): boolean {
  return lstatSync(reservationFile(reservation), { throwIfNoEntry: false }) !== undefined
}

/** All of a network, or of the node's host ports. */
export function reservationsIn(network: string | undefined): readonly Reservation[] {
  return namesIn(directoryOf(network)).map((name) => (network === undefined ? { name } : { network, name }))
}

/** Whether the reservation says that it is the attachment's. */
export function isHeldBy(reservation: Reservation, key: AttachmentKey): boolean {
  const holder = reservationHolder(reservation)
  return holder !== undefined && sameKey(holder.key, key)
}

/** The names that say they are an attachment's: addresses of `network`, or without it the node's host ports. */
export function reservedBy(key: AttachmentKey, network?: string): readonly string[] {
  const held = reservationsIn(network).filter((each) => isHeldBy(each, key))
  return held.map(({ name }) => name)
}

/** The intent record behind the first of them: all were made by the same ADD. */
export function intentReservedBy(key: AttachmentKey, network?: string): AttachmentRecord | undefined {
  const own = reservationsIn(network).find((each) => isHeldBy(each, key))
  return own && reservationHolder(own)
}

/** Who gives back what, of which attachment. */
export interface Releasing {
  readonly key: AttachmentKey
  readonly owner: ProcessIdentity
  readonly deadline?: Deadline
}

/** What to give back. `known`: the names that its record has; absent: those that say they are its. */
interface Release {
  readonly network: string | undefined
  readonly known: readonly string[] | undefined
  readonly purpose: string
  readonly remove: (name: string) => void
}

/** Gives back every reservation of an attachment; those that changed hands meanwhile are left alone. */
export async function release(
  { key, owner, deadline }: Releasing,
  { network, known, purpose, remove }: Release,
): Promise<void> {
  const isMeant = (each: Reservation) => (known === undefined ? isHeldBy(each, key) : known.includes(each.name))
  const candidates = reservationsIn(network).filter(isMeant)
  if (candidates.length === 0) return
  const lock = { file: reservationLock({ network }), purpose, owner, waitMs: lockWaitMs } as const
  await withLock({ ...lock, isDispensable: true, ...(deadline && { deadline }) }, () => {
    for (const each of candidates) {
      const holder = reservationHolder(each)
      // One that cannot be read any more is its own where its record says so.
      const isOwn = holder === undefined ? known !== undefined : sameKey(holder.key, key)
      if (isOwn) remove(each.name)
    }
  })
}

/** What is reserved again for whom: `record` is of the attachment that has it. */
interface ReservedAgain {
  readonly reservation: Reservation
  readonly record: AttachmentRecord
  readonly owner: ProcessIdentity
  readonly deadline: Deadline
}

/**
 * Writes a reservation that was lost, under the lock that a DEL holds while it gives reservations back. `isFree`: asked
 * under it, since the DEL may be over by then, and once more where the name is taken: an ADD takes one without that
 * lock.
 */
export async function reserveAgain(again: ReservedAgain, isFree: () => boolean): Promise<void> {
  const { reservation, record, owner, deadline } = again
  const lock = {
    file: reservationLock(reservation),
    purpose: 'mend a reservation',
    owner,
    waitMs: lockWaitMs,
    deadline,
  }
  await withLock(lock, () => {
    if (!isFree()) return
    const [file, text] = [reservationFile(reservation), encodeFile(intentOf(record))]
    // What cannot be read keeps its name, or an ADD would take it.
    if (!createText(file, text) && isFree()) replaceText(file, text)
  })
}

function directoryOf(network: string | undefined): string {
  return network === undefined ? portsDirectory() : networkFiles(network).addresses
}
