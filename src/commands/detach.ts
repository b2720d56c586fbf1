// SPDX-License-Identifier: Apache-2.0
// Takes one attachment down from its record alone: DEL, the undo of a failed ADD, GC, and the
// settling of what a killed call left are all this one story.

import type { Invocation } from '../cni/invocation.ts'
import { CommandError } from '../compile/command-error.ts'
import { detachOps, podUndoOps } from '../plan/attach.ts'
import type { Op } from '../plan/op.ts'
import type { AttachmentRecord } from '../plan/record.ts'
import { flowsAfterDel } from '../plan/stale-flows.ts'
import { releaseAddresses } from '../system/addresses.ts'
import { deleteFlows } from '../system/conntrack.ts'
import { delegate } from '../system/delegate.ts'
import { executeAll } from '../system/execute.ts'
import { linkExists } from '../system/kernel-files.ts'
import { withLock } from '../system/lock.ts'
import { closeNetns, netnsState } from '../system/netns.ts'
import { releasePorts } from '../system/ports.ts'
import {
  finishedRecords,
  forget,
  forgetFinished,
  pendingRecords,
  type StoredRecord,
  writePending,
} from '../system/records.ts'
import { removeReference } from '../system/reference-chain.ts'
import { hasEnded } from '../system/stamp.ts'
import type { NetworkFiles } from '../system/state.ts'
import { sweep } from '../system/sweep.ts'
import type { CallContext } from './context.ts'

const settleWaitMs = 5000

/** Takes an attachment down and forgets it. What fails stays in its record as owed, with its addresses; the failures are returned. */
export async function detach(
  context: CallContext,
  files: NetworkFiles,
  record: AttachmentRecord,
): Promise<readonly Error[]> {
  const failures = await undo(context, record)
  if (failures.length > 0) {
    const owed = failures.map((failure) => failure.message)
    writePending(files, { ...record, writer: context.stamp, owed })
    forgetFinished(files, record.key)
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
  if (pendingRecords(files).some(isLeftover)) {
    await oneAtATime(context, files, () => pendingRecords(files).filter(isLeftover)).catch(tellUnsettled)
  }
  await sweep(files, context.stamp).catch(tellUnsettled)
}

/** Takes down every dead attachment of the network: its machine was restarted or its namespace is gone. Returns how many. */
export async function reclaimDead(context: CallContext, files: NetworkFiles): Promise<number> {
  const dead = () => [...finishedRecords(files), ...pendingRecords(files)].filter((stored) => isDead(stored, context))
  return dead().length === 0 ? 0 : await oneAtATime(context, files, dead)
}

/**
 * Two calls that settle the same attachment: the slower one would take down a new attachment of the
 * same name. So one call settles, and looks at what there is only then. Returns how many are gone.
 */
async function oneAtATime(
  context: CallContext,
  files: NetworkFiles,
  find: () => readonly StoredRecord[],
): Promise<number> {
  const lock = { file: files.settleLock, purpose: 'settle killed calls', owner: context.stamp, waitMs: settleWaitMs }
  return await withLock(lock, async () => {
    const left = await Promise.all(find().map(({ record }) => detach(context, files, record)))
    return left.filter((failures) => failures.length === 0).length
  })
}

function tellUnsettled(error: Error): void {
  process.stderr.write(`trestle: what killed calls left stays for a later call: ${error.message}\n`)
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
  const ops = detachOps(record.spec, removalGroup(context)).filter(isStillNeeded)
  const inPod = await undoInPod(context, record, podUndoOps(record.spec))
  const failures = [...inPod, ...(await executeAll({ run: context.cleanup }, ops))]
  if (failures.length > 0 || record.adopted === undefined) return failures
  const addresses = record.spec.ips.map(({ address }) => address.slice(0, address.indexOf('/')))
  return await removeReference(context.cleanup, { key: record.key, dataDir: record.adopted.dataDir, addresses })
}

/**
 * What stays in a namespace that outlives the attachment. Where the namespace is gone, so is that; what the kernel
 * refuses there is the pod's own doing since, told and not owed.
 */
async function undoInPod(
  context: CallContext,
  record: AttachmentRecord,
  ops: readonly Op[],
): Promise<readonly Error[]> {
  if (ops.length === 0 || netnsState(record.netns) !== 'live') return []
  const netns = context.openNetns(record.netns.path)
  try {
    const failures = await executeAll({ run: context.cleanup, netnsFd: netns.fd }, ops)
    const refused = failures.filter((failure) => failure instanceof CommandError)
    for (const each of refused) process.stderr.write(`trestle: left in the sandbox: ${each.message}\n`)
    return failures.filter((failure) => !(failure instanceof CommandError))
  } finally {
    closeNetns(netns)
  }
}

/** A link that is gone needs no process: containerd's second DEL then starts none. */
function isStillNeeded(op: Op, _at: number, ops: readonly Op[]): boolean {
  const isOfLink = op.kind === 'link.del' || op.kind === 'link.group' || op.kind === 'qdisc.del'
  if (isOfLink || op.kind === 'port.isolation') return linkExists(op.dev)
  if (op.kind === 'group.del') return ops.some((other) => other.kind === 'link.group' && linkExists(other.dev))
  return true
}

/** A link group that is this process's alone while it lives: pids are below 2^22 (PID_MAX_LIMIT). */
export function removalGroup(context: CallContext): number {
  return 0x40000000 + context.stamp.pid
}
