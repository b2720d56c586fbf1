// SPDX-License-Identifier: Apache-2.0
// What others have left: calls of the network that were killed, what an earlier removal could not, and dead holders of an
// address or port.

import { oneLine } from '../cni/errors.ts'
import { type AttachmentId, sameId } from '../drivers/spec.ts'
import { hasEnded } from '../process/clock.ts'
import { removeFile } from '../state/files.ts'
import { pendingFile } from '../state/layout.ts'
import {
  type AttachmentRecord,
  describeRecord,
  findFinished,
  findRecord,
  isDead,
  pendingRecordsOf,
} from '../state/records.ts'
import type { Context } from './context.ts'
import { detach, detachWithoutRecord } from './detach.ts'

/**
 * Removes what calls of the network that were killed have left, and what earlier removals could not. `own`: the record
 * of the present call. A failure is reported and stops nothing.
 */
export async function settleKilledCalls(network: string, context: Context, own?: AttachmentId): Promise<void> {
  for (const record of pendingRecordsOf(network)) {
    if ((own !== undefined && sameId(record.id, own)) || !hasEnded(record.writer, Date.parse(record.createdAt)))
      continue
    // Without CNI_PATH a lease of another plugin cannot be given back: a later call of the network does.
    if (record.delegated !== undefined && context.path.length === 0) {
      reportLeft(new Error(`${describeRecord(record)}: the IPAM plugin ${record.delegated.type} has its lease`))
    } else await settleOne(record, context)
  }
}

async function settleOne(record: AttachmentRecord, context: Context): Promise<void> {
  try {
    if (findFinished(record.id) !== undefined && !record.isLeaving) {
      // It ended well a moment ago. Or a second ADD, about to be refused, was killed: it has nothing of its own.
      if (record.spec === undefined) removeFile(pendingFile(record.id))
      return
    }
    const errors = await detach(record, context)
    for (const error of errors) reportLeft(error)
  } catch (error) {
    reportLeft(error as Error)
  }
}

export function reportLeft(error: Error): void {
  process.stderr.write(`trestle: pending cleanup: ${oneLine(error.message)}\n`)
}

/** Tears down a dead holder of an address or port; false where it lives, or where something of it is left. */
export function settleDeadWith(context: Context): (holder: AttachmentRecord) => Promise<boolean> {
  return async (holder) => {
    // The reservation is the intent record: what the attachment has stands in its own record.
    const record = findRecord(holder.id) ?? holder
    if (!isDead(record) && !(record.isLeaving && hasEnded(record.writer, Date.parse(record.createdAt)))) return false
    if (findRecord(holder.id) === undefined) return (await detachWithoutRecord(holder.id, context)).length === 0
    return (await detach(record, context)).length === 0
  }
}
