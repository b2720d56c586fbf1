// SPDX-License-Identifier: Apache-2.0
// What of state is in use now: the attachments of this boot, and what those need that were made before a
// change of their network's configuration.

import type { AttachmentSpec, NetworkSpec } from '../plan/attachment.ts'
import { earlierNetworks } from '../plan/earlier-networks.ts'
import type { AttachmentRecord } from '../plan/record.ts'
import { allRecords } from '../system/records.ts'
import type { CallContext } from './context.ts'

/**
 * Attachments of this boot, made or being made; not those that a DEL is taking down or could take down only in part. To be
 * read under the machine's lock by whoever writes their rules: a DEL waits for its holder (take-down.ts).
 */
export function liveSpecs(context: CallContext): readonly AttachmentSpec[] {
  return liveRecords(context).flatMap(({ spec }) => spec ?? [])
}

/** What live attachments need beyond `current`, the networks as they are configured now. */
export function earlierInUse(context: CallContext, current: readonly NetworkSpec[]): readonly NetworkSpec[] {
  const newest = liveRecords(context).sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1))
  return earlierNetworks(
    current,
    newest.flatMap(({ spec, network }) => (spec !== undefined && network !== undefined ? [network] : [])),
  )
}

function liveRecords({ stamp }: CallContext): AttachmentRecord[] {
  return allRecords().flatMap(({ record }) =>
    record.writer.bootId === stamp.bootId && record.owed === undefined ? [record] : [],
  )
}
