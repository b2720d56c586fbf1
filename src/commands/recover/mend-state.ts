// SPDX-License-Identifier: Apache-2.0
// State that follows from other state: a reservation from its attachment's record, what a network shares from what
// its newest attachment remembers. Damaged or removed, it is written again.

import { type AttachmentRecord, sameKey } from '../../plan/model/record.ts'
import { type Reservation, recordReservations, reservationText } from '../../plan/recovery/strays.ts'
import { createText, replaceText } from '../../system/files/files.ts'
import { type NetworkFiles, networkFiles, networkParts } from '../../system/files/state.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { withLock } from '../../system/store/lock.ts'
import { allRecords, findRecords, knownNetwork, readNetwork, writeNetwork } from '../../system/store/records.ts'
import { reservationHolder } from '../../system/store/reservation-holders.ts'
import { reservationFile, reservationLock } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'

const lockWaitMs = 5000

/** Something that is not as other state says. */
export interface StateLack {
  readonly text: string
  readonly mend: (context: CallContext) => Promise<void>
}

/** What is missing or cannot be read. What another attachment has reserved is nobody's to take: CHECK tells it. */
export function stateLacks(context: CallContext): readonly StateLack[] {
  const records = allRecords().filter(({ isPending, record }) => !isPending && isOfThisHost(context, record))
  const reservations = records.flatMap(({ record }) => lackingReservations(record))
  return [...networkParts().flatMap(lackingNetwork), ...reservations]
}

function isOfThisHost({ stamp }: CallContext, record: AttachmentRecord): boolean {
  return hostStateOf(record.writer, stamp) === 'here'
}

function lackingNetwork(files: NetworkFiles): readonly StateLack[] {
  if (readNetwork(files) !== undefined) return []
  const network = knownNetwork(files)
  if (network === undefined) return []
  return [{ text: `${files.network} is missing`, mend: async () => writeNetwork(files, network) }]
}

function lackingReservations(record: AttachmentRecord): readonly StateLack[] {
  const own = recordReservations(record).filter(({ network }) => network === undefined || record.spec?.isPool === true)
  return own
    .filter((reservation) => reservationHolder(reservation) === undefined)
    .map((reservation) => ({
      text: `the reservation of ${reservationText(reservation)} is missing`,
      mend: (context) => mend(context, record, reservation),
    }))
}

/** Under the lock that a DEL holds while it gives reservations back: it may be over by then. */
async function mend(context: CallContext, record: AttachmentRecord, reservation: Reservation): Promise<void> {
  const files = networkFiles(record.key.network)
  const lock = {
    file: reservationLock(reservation),
    purpose: 'mend a reservation',
    owner: context.stamp,
    waitMs: lockWaitMs,
  }
  await withLock({ ...lock, deadline: context.work }, () => {
    const now = findRecords(files, record.key).find(({ isPending }) => !isPending)?.record
    const isStill = now !== undefined && sameKey(now.key, record.key) && now.createdAt === record.createdAt
    if (!isStill || reservationHolder(reservation) !== undefined) return
    const { spec: _, network: __, ...claim } = record
    const [file, text] = [reservationFile(reservation), JSON.stringify(claim)]
    // One that is there by now and can be read is somebody else's; one that cannot keeps its name, or an ADD would take it.
    if (!createText(file, text) && reservationHolder(reservation) === undefined) replaceText(file, text)
  })
}
