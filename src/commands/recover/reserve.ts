// SPDX-License-Identifier: Apache-2.0
// Writes a reservation that was lost for the attachment that has what it stands for.

import type { AttachmentRecord } from '../../plan/model/record.ts'
import type { Reservation } from '../../plan/recovery/orphan-reservations.ts'
import { encodeRecord } from '../../plan/state/state-files.ts'
import { createText, replaceText } from '../../system/files/files.ts'
import { withLock } from '../../system/store/lock.ts'
import { reservationFile, reservationLock } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'

const lockWaitMs = 5000

/**
 * Reserves for `record`, under the lock that a DEL holds while it gives reservations back. `isFree`: asked under it,
 * since the DEL may be over by then, and once more where the name is taken: an ADD takes one without that lock.
 */
export async function reserveFor(
  context: CallContext,
  { reservation, record }: { readonly reservation: Reservation; readonly record: AttachmentRecord },
  isFree: () => boolean,
): Promise<void> {
  const lock = { file: reservationLock(reservation), purpose: 'mend a reservation', owner: context.identity }
  await withLock({ ...lock, waitMs: lockWaitMs, deadline: context.whole }, () => {
    if (!isFree()) return
    const { spec: _, seen: _seen, network: __, ...intent } = record
    const [file, text] = [reservationFile(reservation), encodeRecord(intent)]
    // What cannot be read keeps its name, or an ADD would take it.
    if (!createText(file, text) && isFree()) replaceText(file, text)
  })
}
