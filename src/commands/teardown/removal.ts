// SPDX-License-Identifier: Apache-2.0
// Carries a teardown out as its order says (plan/order/teardown.ts).

import type { AttachmentRecord, NetnsIdentity } from '../../plan/model/record.ts'
import { type Removal, removalFromIds, removalOf } from '../../plan/order/removal.ts'
import { nextOfDel } from '../../plan/order/teardown.ts'
import type { NetworkFiles } from '../../system/files/state.ts'
import { closeNetns, netnsState } from '../../system/kernel/netns.ts'
import { carryOut } from '../call/carry-out.ts'
import { type CallContext, openIfThere } from '../call/context.ts'
import { doorOf } from './door.ts'

/**
 * Removes and forgets the attachment, or writes down what is pending and returns the failures. Its lock is held
 * (teardown.ts).
 */
export async function removeRecorded(
  context: CallContext,
  files: NetworkFiles,
  record: AttachmentRecord,
): Promise<readonly Error[]> {
  const removal = removalOf(record, ownGroup(context))
  return await remove(context, removal, { files, record, netns: record.netns })
}

/** The same of one that has no record, but reservations. */
export async function removeUnrecorded(
  context: CallContext,
  files: NetworkFiles,
  { key, netns }: AttachmentRecord,
): Promise<readonly Error[]> {
  return await remove(context, removalFromIds(key, ownGroup(context)), { files, netns })
}

/** Where it is. `record`: where there is one, as it is by now. */
interface Whereabouts {
  readonly files: NetworkFiles
  readonly netns: NetnsIdentity
  readonly record?: AttachmentRecord
}

/** Removes it, and returns the failures; what is gone is none. What a sandbox keeps is reported on stderr. */
async function remove(
  context: CallContext,
  removal: Removal,
  { files, netns, record }: Whereabouts,
): Promise<readonly Error[]> {
  // Where the namespace is gone, so is what it had.
  const isLive = removal.pod.length > 0 && netnsState(netns) === 'live'
  const pod = isLive ? openIfThere(context, netns.path) : undefined
  try {
    const place = { run: context.cleanup, ...(pod && { netnsFd: pod.fd }) }
    const door = doorOf({ context, files, key: removal.key, ...(record && { record }) })
    const begun = { removal, hasPod: pod !== undefined, learnt: {}, runs: [] }
    const { failures, refused } = await carryOut(context, { place, door, next: nextOfDel }, begun)
    for (const each of refused) process.stderr.write(`trestle: left in the sandbox: ${each.message}\n`)
    return failures
  } finally {
    if (pod !== undefined) closeNetns(pod)
  }
}

/** A link group that is this process's alone while it lives: pids are below 2^22 (PID_MAX_LIMIT). */
function ownGroup({ identity }: CallContext): number {
  return 0x40000000 + identity.pid
}
