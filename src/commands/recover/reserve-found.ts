// SPDX-License-Identifier: Apache-2.0
// Reserves what was rediscovered (rediscover.ts): a claim without a record, as a lost record leaves it. The attachment's
// DEL releases it, and the end of its pod does.

import type { AttachmentRecord } from '../../plan/model/record.ts'
import { type Rediscovered, rediscoveredReservations } from '../../plan/recovery/rediscovery.ts'
import type { Reservation } from '../../plan/recovery/strays.ts'
import { createText, replaceText } from '../../system/files/files.ts'
import { withLock } from '../../system/store/lock.ts'
import { isReserved, reservationHolder } from '../../system/store/reservation-holders.ts'
import { reservationFile, reservationLock } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'

const lockWaitMs = 5000

/**
 * Reserves what nobody has; what is reserved and cannot be read is made the attachment's again where it is certain.
 * An address alone is worth a new reservation only while the pod lives; `unreadable`: no new ones, since a pod that was
 * found without a record may have been one whose DEL was about to end.
 */
export async function reserveFound(
  context: CallContext,
  found: readonly Rediscovered[],
  which: 'all' | 'unreadable' = 'all',
): Promise<void> {
  for (const each of found) {
    const { key, netns } = each
    const createdAt = new Date().toISOString()
    const claim: AttachmentRecord = { format: 1, key, writer: context.stamp, netns, createdAt, configDigest: '' }
    const isWorthNew = which === 'all' && (netns.path !== '' || each.ports.length > 0)
    for (const reservation of rediscoveredReservations(each)) {
      if (isReserved(reservation)) {
        if (each.isCertain) await reclaimUnreadable(context, reservation, claim)
      } else if (isWorthNew) createText(reservationFile(reservation), JSON.stringify(claim))
    }
  }
}

/** Under the lock that a DEL holds while it gives reservations back. */
async function reclaimUnreadable(
  context: CallContext,
  reservation: Reservation,
  claim: AttachmentRecord,
): Promise<void> {
  if (reservationHolder(reservation) !== undefined) return
  const lock = { file: reservationLock(reservation), purpose: 'mend a reservation', owner: context.stamp }
  await withLock({ ...lock, waitMs: lockWaitMs, deadline: context.whole }, () => {
    if (!isReserved(reservation) || reservationHolder(reservation) !== undefined) return
    replaceText(reservationFile(reservation), JSON.stringify(claim))
  })
}
