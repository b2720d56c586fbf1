// SPDX-License-Identifier: Apache-2.0
// Takes one attachment down from its record alone: DEL, the undo of a failed ADD, GC, and the
// settling of what a killed call left are all this one story.

import { CniCode, CniError, toCniError } from '../cni/error.ts'
import type { Invocation } from '../cni/invocation.ts'
import { CommandError } from '../compile/command-error.ts'
import { detachOps, podUndoOps } from '../plan/attach.ts'
import { bareSpec } from '../plan/bare.ts'
import { recordFileName } from '../plan/names.ts'
import type { Op } from '../plan/op.ts'
import type { AttachmentRecord } from '../plan/record.ts'
import { flowsAfterDel } from '../plan/stale-flows.ts'
import { holderOf, releaseAddresses } from '../system/addresses.ts'
import { deleteFlows } from '../system/conntrack.ts'
import { delegate } from '../system/delegate.ts'
import { executeAll } from '../system/execute.ts'
import { namesIn } from '../system/files.ts'
import { linkExists } from '../system/kernel-files.ts'
import { withLock } from '../system/lock.ts'
import { closeNetns, netnsState, type OpenNetns } from '../system/netns.ts'
import { releasePorts } from '../system/ports.ts'
import {
  findRecords,
  finishedRecords,
  forget,
  forgetFinished,
  pendingRecords,
  type StoredRecord,
  writePending,
} from '../system/records.ts'
import { removeReference } from '../system/reference-chain.ts'
import { isWriterGone } from '../system/stamp.ts'
import type { NetworkFiles } from '../system/state.ts'
import { sweep } from '../system/sweep.ts'
import type { CallContext } from './context.ts'
import { removeLostElements } from './lost-elements.ts'

const lockWaitMs = 10_000

/** How many attachments are taken down side by side: each is a few processes. */
const atOnce = 8

/**
 * Takes an attachment down and forgets it. What fails stays in its record as owed, with its addresses;
 * the failures are returned. One call at a time works on an attachment: whoever comes second looks at
 * what is there then, and leaves alone what another ADD of the same name has made meanwhile.
 */
export async function detach(
  context: CallContext,
  files: NetworkFiles,
  record: AttachmentRecord,
): Promise<readonly Error[]> {
  const file = `${files.locks}/${recordFileName(record.key)}`
  const lock = { file, purpose: 'take an attachment down', owner: context.stamp, waitMs: lockWaitMs }
  return await withLock({ ...lock, deadline: context.whole }, async () => {
    const same = findRecords(files, record.key).filter((stored) => stored.record.createdAt === record.createdAt)
    // The finished record says more than a claim; a claim alone is all there is to give back.
    const now = same.find((stored) => stored.record.spec !== undefined) ?? same[0]
    return now === undefined ? [] : await takeDown(context, files, now.record)
  })
}

async function takeDown(context: CallContext, files: NetworkFiles, found: AttachmentRecord): Promise<readonly Error[]> {
  // Without a spec, links are found by their names, and reservations by what they say themselves.
  const record = found.spec === undefined ? { ...found, spec: bareSpec(found.key), isLost: true as const } : found
  const failures = await undo(context, record)
  if (failures.length > 0) {
    const owed = failures.map((failure) => failure.message)
    writePending(files, { ...record, writer: context.stamp, owed })
    forgetFinished(files, record.key)
    return failures
  }
  if (record.isLost && !(await removeLostElements(context, files, record.key))) return [elementsLeft(record)]
  const releasing = { ...(record.isLost ? bareClaim(record) : record), writer: context.stamp }
  const ports = record.isLost ? undefined : (record.spec?.hostPorts?.ports ?? [])
  await deleteFlows(context.cleanup, flowsAfterDel(ports ?? []))
  // From here on others may take its addresses and ports: a record that is left must not claim them.
  writePending(files, bareClaim(releasing))
  forgetFinished(files, record.key)
  await releasePorts(releasing, ports, context.whole)
  await releaseAddresses(files, releasing, context.whole)
  forget(files, record.key)
  return []
}

function elementsLeft({ key }: AttachmentRecord): CniError {
  return new CniError(CniCode.cleanupIncomplete, `rules of ${key.ifName} of container ${key.containerId} may be left`, {
    details: 'stderr says why; its reservations stay until a later call removes them',
  })
}

/** A record of reservations alone, as before anything was made. */
function bareClaim({ spec: _, network: __, owed: ___, isLost: ____, ...claim }: AttachmentRecord): AttachmentRecord {
  return claim
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
  const freed = dead().length === 0 ? 0 : await oneAtATime(context, files, dead)
  return freed + (await reclaimUnrecorded(context, files))
}

/** Reservations whose record was lost, of attachments that are dead. Returns of how many. */
async function reclaimUnrecorded(context: CallContext, files: NetworkFiles): Promise<number> {
  const claims = namesIn(files.addresses).flatMap((address) => holderOf(files, address) ?? [])
  const lost = claims.filter(
    (record) => findRecords(files, record.key).length === 0 && isDead({ file: '', isPending: false, record }, context),
  )
  for (const each of lost) await reclaimClaim(context, files, each)
  return lost.length
}

/** Gives back what a claim without a record holds, when its attachment is dead. */
export async function reclaimClaim(
  context: CallContext,
  files: NetworkFiles,
  claim: AttachmentRecord,
): Promise<boolean> {
  if (!isDead({ file: '', isPending: false, record: claim }, context)) return false
  // The veth went with the pod; an ifb did not.
  if ((await undo(context, { ...claim, spec: bareSpec(claim.key) })).length > 0) return false
  if (!(await removeLostElements(context, files, claim.key))) return false
  const releasing = { ...bareClaim(claim), writer: context.stamp }
  await releasePorts(releasing, undefined, context.whole)
  await releaseAddresses(files, releasing, context.whole)
  return true
}

/**
 * One call settles a network's leftovers, and looks at what there is only then. Returns how many are gone.
 */
async function oneAtATime(
  context: CallContext,
  files: NetworkFiles,
  find: () => readonly StoredRecord[],
): Promise<number> {
  const lock = { file: files.settleLock, purpose: 'settle killed calls', owner: context.stamp, waitMs: lockWaitMs }
  return await withLock({ ...lock, deadline: context.whole }, async () => {
    const left = await detachAll(context, files, find())
    return left.filter((failures) => failures.length === 0).length
  })
}

/** Takes attachments down, a few at a time, whatever fails: the failures of each. */
export async function detachAll(
  context: CallContext,
  files: NetworkFiles,
  stored: readonly StoredRecord[],
): Promise<readonly (readonly Error[])[]> {
  const left: (readonly Error[])[] = []
  for (let at = 0; at < stored.length; at += atOnce) {
    const some = stored.slice(at, at + atOnce)
    const ended = await Promise.allSettled(some.map(({ record }) => detach(context, files, record)))
    left.push(...ended.map((each) => (each.status === 'fulfilled' ? each.value : [toCniError(each.reason)])))
  }
  return left
}

function tellUnsettled(error: Error): void {
  process.stderr.write(`trestle: what killed calls left stays for a later call: ${error.message}\n`)
}

/** Whether nothing can use this attachment any more. Where that cannot be told, no. */
export function isDead({ record, isPending }: StoredRecord, context: CallContext): boolean {
  if (isPending && !isWriterGone(record)) return false
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
  return record.owed !== undefined || isWriterGone(record)
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
  const netns = openIfThere(context, record.netns.path)
  if (netns === undefined) return []
  try {
    const failures = await executeAll({ run: context.cleanup, netnsFd: netns.fd }, ops)
    const refused = failures.filter((failure) => failure instanceof CommandError)
    for (const each of refused) process.stderr.write(`trestle: left in the sandbox: ${each.message}\n`)
    return failures.filter((failure) => !(failure instanceof CommandError))
  } finally {
    closeNetns(netns)
  }
}

/** A namespace may go between the look and the opening. */
function openIfThere(context: CallContext, path: string): OpenNetns | undefined {
  try {
    return context.openNetns(path)
  } catch {
    return undefined
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
