// SPDX-License-Identifier: Apache-2.0
// Takes one attachment down from its record alone: DEL, the undo of a failed ADD, GC, and the
// settling of what a killed call left are all this one story.

import type { Invocation } from '../cni/invocation.ts'
import { detachOps } from '../plan/attach.ts'
import type { AttachmentRecord } from '../plan/record.ts'
import { flowsAfterDel } from '../plan/stale-flows.ts'
import { releaseAddresses } from '../system/addresses.ts'
import { deleteFlows } from '../system/conntrack.ts'
import { delegate } from '../system/delegate.ts'
import { executeAll } from '../system/execute.ts'
import { linkExists } from '../system/kernel-files.ts'
import { netnsState } from '../system/netns.ts'
import { releasePorts } from '../system/ports.ts'
import { finishedRecords, forget, pendingRecords, type StoredRecord, writePending } from '../system/records.ts'
import { hasEnded } from '../system/stamp.ts'
import type { NetworkFiles } from '../system/state.ts'
import type { CallContext } from './context.ts'

/** Takes an attachment down and forgets it. What fails stays in its record as owed, with its addresses; the failures are returned. */
export async function detach(
  context: CallContext,
  files: NetworkFiles,
  record: AttachmentRecord,
): Promise<readonly Error[]> {
  const failures = await undo(context, record)
  if (failures.length > 0) {
    const owed = failures.map((failure) => failure.message)
    forget(files, record.key)
    writePending(files, { ...record, writer: context.stamp, owed })
    return failures
  }
  const releasing = { ...record, writer: context.stamp }
  const ports = record.spec === undefined ? undefined : (record.spec.hostPorts?.ports ?? [])
  await deleteFlows(context.cleanup, flowsAfterDel(ports ?? []))
  await releasePorts(releasing, ports)
  await releaseAddresses(files, releasing)
  forget(files, record.key)
  return []
}

/**
 * Settles what earlier calls left on this network: killed ones, and what is owed. Calls in progress
 * are left alone. Never fails the call it is part of.
 */
export async function settleLeftovers(context: CallContext, files: NetworkFiles): Promise<void> {
  for (const { record } of pendingRecords(files).filter(isLeftover)) await detach(context, files, record)
}

/** Takes down every dead attachment of the network: its machine was restarted or its namespace is gone. Returns how many. */
export async function reclaimDead(context: CallContext, files: NetworkFiles): Promise<number> {
  const dead = [...finishedRecords(files), ...pendingRecords(files)].filter((stored) => isDead(stored, context))
  const left = await Promise.all(dead.map(({ record }) => detach(context, files, record)))
  return left.filter((failures) => failures.length === 0).length
}

/** Whether nothing can use this attachment any more. Where that cannot be told, no. */
export function isDead({ record, isPending }: StoredRecord, context: CallContext): boolean {
  if (isPending && !hasEnded(record.writer)) return false
  return record.writer.bootId !== context.stamp.bootId || netnsState(record.netns) === 'gone'
}

/** DEL of the delegated plugin for an attachment other than the call's own. */
export async function delegateDel(
  context: CallContext,
  call: Invocation,
  delegated: { type: string; stdin: string },
): Promise<void> {
  await delegate(context.cleanup, { ...delegated, verb: 'DEL', path: call.path, attachment: call })
}

function isLeftover({ record }: StoredRecord): boolean {
  return record.owed !== undefined || hasEnded(record.writer)
}

async function undo(context: CallContext, record: AttachmentRecord): Promise<readonly Error[]> {
  if (record.spec === undefined) return []
  const ops = detachOps(record.spec).filter((op) => op.kind !== 'link.del' || linkExists(op.dev))
  return await executeAll({ run: context.cleanup }, ops)
}
