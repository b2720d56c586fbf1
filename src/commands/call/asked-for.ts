// SPDX-License-Identifier: Apache-2.0
// Which attachments a DEL is about: those of its ids and its network, and where there are none, those that the network
// made under another name.

import type { Invocation } from '../../cni/model/invocation.ts'
import type { DelConf, Role } from '../../cni/model/net-conf.ts'
import type { AttachmentKey } from '../../plan/model/attachment.ts'
import { configDigest } from '../../plan/recovery/config-digest.ts'
import { networkFiles } from '../../system/files/state.ts'
import { isWriterGone } from '../../system/process/process-identity.ts'
import { waitForHolder } from '../../system/store/lock.ts'
import { findRecords, type StoredRecord } from '../../system/store/records.ts'
import { attachmentLock } from './attachment-lock.ts'
import type { CallContext } from './context.ts'
import { recordsOfOtherNames } from './other-names.ts'

/** `isCertain`: one of them was made with the configuration of the DEL, so that no other part of the list is meant. */
export interface Asked {
  readonly meant: readonly StoredRecord[]
  readonly isCertain: boolean
}

/**
 * Waits for another DEL of the same that is under way. Throws CniError 11 when it takes too long, 106 when a signal
 * comes.
 */
export async function askedFor(context: CallContext, call: Invocation, conf: DelConf): Promise<Asked> {
  const asked = meantBy(conf, await recordsFor(context, call, conf))
  if (asked.meant.length > 0) return asked
  return { meant: recordsOfOtherNames(call, conf, rolesOf(conf)), isCertain: false }
}

/** The attachment of a call's ids on its network, in one role. */
export function keyOf(call: Invocation, conf: DelConf, role: Role): AttachmentKey {
  return { network: conf.name, containerId: call.containerId, ifName: call.ifName, role }
}

/** A delegated DEL is only ever about its own reservation. */
export function rolesOf(conf: DelConf): readonly Role[] {
  return conf.role === 'ipam' ? ['ipam'] : ['chained', 'main']
}

/** Whether a call that has not ended makes it. */
export function isInProgress({ record, isPending }: StoredRecord): boolean {
  return isPending && record.pendingCleanup === undefined && !isWriterGone(record)
}

/**
 * The attachment's records. Another DEL that only has to give things back looks like an ADD, but for its lock: it is
 * waited for.
 */
async function recordsFor(context: CallContext, call: Invocation, conf: DelConf): Promise<readonly StoredRecord[]> {
  const find = () => rolesOf(conf).flatMap((role) => findRecords(networkFiles(conf.name), keyOf(call, conf, role)))
  const records = find()
  const busy = records.filter(isInProgress)
  if (busy.length === 0) return records
  for (const { record } of busy) await waitForHolder(attachmentLock(context, record.key, 'delete the attachment'))
  return find()
}

/**
 * Both plugins of a list get the same ids: where the configuration is the one a chained attachment
 * was made with, that one is meant and no other; a configuration nobody knows means all of them.
 */
function meantBy(conf: DelConf, records: readonly StoredRecord[]): Asked {
  const digest = configDigest(conf)
  const exact = records.filter(({ record }) => record.configDigest === digest)
  return exact.length > 0 ? { meant: exact, isCertain: true } : { meant: records, isCertain: false }
}
