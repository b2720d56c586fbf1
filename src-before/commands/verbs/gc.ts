// SPDX-License-Identifier: Apache-2.0
// GC: what the runtime no longer lists goes, of this network only. It goes on after a failure and
// reports all of them (CNI spec 1.1.0, section 3, GC).

import { CniError, toCniError } from '../../cni/error.ts'
import { CniCode } from '../../cni/error-code.ts'
import type { Invocation } from '../../cni/invocation.ts'
import type { AttachmentId, NetConf } from '../../config/net-conf.ts'
import { networkFiles, requireState } from '../../system/files/state.ts'
import { delegate } from '../../system/ipam/delegate.ts'
import { endKilledCalls } from '../../system/process/call-processes.ts'
import { isWriterGone } from '../../system/process/process-identity.ts'
import { recordsOf, type StoredRecord } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { keysWithoutRecord, removeUnlisted } from '../recover/collect.ts'
import { isDead, teardownAll, waitForLinks } from '../teardown/attachments.ts'
import { removeWhenEmpty } from '../teardown/remove-network.ts'

/**
 * Removes attachments that are not listed. An absent list removes nothing, `null` the dead ones. Throws an
 * AggregateError of what failed.
 */
export async function gc(context: CallContext, call: Invocation, conf: NetConf): Promise<void> {
  requireState(conf.name)
  const files = networkFiles(conf.name)
  await endKilledCalls(conf.ipam.kind === 'delegated')
  const failures: Error[] = []
  const valid = conf.validAttachments
  if (valid === null) process.stderr.write(`trestle: GC: the list of ${conf.name} is null: only dead attachments go\n`)
  if (valid === null) await waitForLinks(recordsOf(files).map(({ record }) => record))
  if (valid !== undefined) {
    const orphaned = recordsOf(files).filter((stored) =>
      valid === null ? isDead(stored, context) : isSettled(stored) && !isListed(stored.record.key, valid),
    )
    failures.push(...(await teardownAll(context, files, orphaned)).flat())
  }
  // Of addresses alone there are no links and no rules.
  if (valid && conf.role !== 'ipam')
    failures.push(...(await removeUnlisted(context, conf, (id) => isListed(id, valid))))
  await removeWhenEmpty(context, files)
  // The plugin would give back the leases of what is another host's.
  const isShared = failures.some((failure) => failure instanceof CniError && failure.code === CniCode.otherHost)
  // To the plugin, null may be an empty list.
  if (conf.ipam.kind === 'delegated' && !isShared && valid !== null) {
    const delegation = { type: conf.ipam.type, verb: 'GC', path: call.path, stdin: conf.stdin } as const
    await delegate(context.run, delegation).catch((error: unknown) => failures.push(toCniError(error)))
  }
  if (failures.length > 0) throw new AggregateError(failures, 'GC is incomplete')
}

/** The attachments that GC removes unless they are listed, with a record or without (`netns` empty). Two processes. */
export async function attachmentsForGc(context: CallContext, network: string) {
  const settled = recordsOf(networkFiles(network)).filter(isSettled)
  const recorded = settled.map(({ record: { key, netns } }) => ({ ...key, netns: netns.path }))
  const lost = await keysWithoutRecord(context, network)
  return [...recorded, ...lost.map((key) => ({ ...key, netns: '' }))]
}

/** A call in progress is not on the runtime's list yet. */
function isSettled({ record, isPending }: StoredRecord): boolean {
  return !isPending || record.pendingCleanup !== undefined || isWriterGone(record)
}

function isListed(id: AttachmentId, valid: readonly AttachmentId[]): boolean {
  return valid.some(({ containerId, ifName }) => containerId === id.containerId && ifName === id.ifName)
}
