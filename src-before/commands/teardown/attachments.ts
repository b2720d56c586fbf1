// SPDX-License-Identifier: Apache-2.0
// Takes one attachment down from its record alone: DEL, the teardown of a failed ADD, GC, and the
// settling of what a killed call left are all this one story.

import { existsSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { toCniError } from '../../cni/error.ts'
import { hostLinkName } from '../../model/names.ts'
import { type AttachmentRecord, knownSpec } from '../../model/record.ts'
import { isDiskRefusal } from '../../system/files/files.ts'
import type { NetworkFiles } from '../../system/files/state.ts'
import { hostStateOf, requireOwnHost } from '../../system/kernel/host-namespace.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import { netnsState } from '../../system/kernel/netns.ts'
import { endKilledCalls, endProcessesOf } from '../../system/process/call-processes.ts'
import { nowMs } from '../../system/process/clock.ts'
import { isWriterGone } from '../../system/process/process-identity.ts'
import { type LockRequest, withLock } from '../../system/store/lock.ts'
import {
  findRecords,
  pendingFile,
  pendingRecords,
  recordsOf,
  type StoredRecord,
  writeIntent,
} from '../../system/store/records.ts'
import { sweep } from '../../system/store/sweep.ts'
import { keepApart } from '../call/attachment-records.ts'
import { type CallContext, interrupted, isInterrupted, requireUninterrupted } from '../call/context.ts'
import { attachmentLock, waitForTeardowns } from '../call/locks.ts'
import type { Release } from './delegated-lease.ts'
import { remove } from './removal-port.ts'
import { rememberSetUp } from './remove-network.ts'

const lockWaitMs = 10_000

/** What another attachment's killed call has at work keeps a call waiting no longer than this. */
const patienceMs = 5000

/** How many attachments are torn down side by side: each is a few processes. */
const atOnce = 8

/** A loaded kernel takes a second or more to remove the links of a namespace that ended: two at most are waited. */
const [mostLooks, pauseMs] = [40, 50]

/**
 * Tears an attachment down and forgets it. What fails stays in its record as pending cleanup, with its addresses;
 * the failures are returned. One call at a time works on an attachment: whoever comes second looks at
 * what is there then, and leaves alone what another ADD of the same name has made meanwhile. Throws CniError 111 for an
 * attachment of another host network namespace.
 */
export async function teardown(
  context: CallContext,
  files: NetworkFiles,
  record: AttachmentRecord,
): Promise<readonly Error[]> {
  requireOwnHost(record, context.identity)
  return await withLock(removalLock(context, record), async () => {
    const stored = findRecords(files, record.key)
    const now = storedNow(stored, record)
    const isCutShort = isUnfinished(stored, record)
    if (now !== undefined && isCutShort) await keepApart(context, record)
    if (now === undefined) return []
    if (now !== 'refused') {
      await endProcessesOf(now.writer, context.waits)
      if (isCutShort) rememberSetUp(files, now)
      return await remove(context, { files, record: now })
    }
    rmSync(pendingFile(files, record.key), { force: true })
    return []
  })
}

/**
 * The same for an attachment whose record was lost: `record` is made up, and written before anything is removed; on a
 * full disk the attachment is removed without it. Where another record of the attachment has come meanwhile, a new ADD
 * has written that: nothing is removed.
 */
export async function teardownWithoutRecord(
  context: CallContext,
  files: NetworkFiles,
  record: AttachmentRecord,
): Promise<readonly Error[]> {
  try {
    if (!writeIntent(files, record)) return []
  } catch (error) {
    if (!isDiskRefusal(error)) throw error
    return await withLock(removalLock(context, record), async () =>
      findRecords(files, record.key).length > 0 ? [] : await remove(context, { files, record }),
    )
  }
  return await teardown(context, files, record)
}

function removalLock(context: CallContext, { key }: AttachmentRecord): LockRequest {
  return { ...attachmentLock(context, key, 'take an attachment down'), isDispensable: true }
}

/** Whether the record's ADD was refused or killed. A record that a DEL made up has no ADD (teardownWithoutRecord). */
function isUnfinished(stored: readonly StoredRecord[], { configDigest, createdAt }: AttachmentRecord): boolean {
  const same = stored.filter((each) => each.record.createdAt === createdAt)
  return configDigest !== '' && same.every((each) => each.isPending && each.record.pendingCleanup === undefined)
}

/**
 * The record as it is by now. 'refused': the intent of an ADD for an attachment that exists already; the ADD was killed
 * before it was refused, and has made nothing.
 */
function storedNow(
  stored: readonly StoredRecord[],
  record: AttachmentRecord,
): AttachmentRecord | 'refused' | undefined {
  const same = stored.filter((each) => each.record.createdAt === record.createdAt)
  const isIntent = ({ isPending, record: { spec, pendingCleanup } }: StoredRecord) =>
    isPending && spec === undefined && pendingCleanup === undefined
  if (same.every(isIntent) && 0 < same.length && same.length < stored.length) return 'refused'
  // The finished record says more than an intent record; an intent record alone is all there is to give back.
  return (same.find((each) => each.record.spec !== undefined) ?? same[0])?.record
}

/**
 * `release`: gives back what a delegated plugin has leased; `keepsLeases`: who has no CNI_PATH, and leaves what has a
 * lease to a call that does: its record says of it. `delegates`: the call has a delegated plugin of its own.
 */
interface Settling {
  readonly delegates?: boolean
  readonly release?: Release | undefined
  readonly keepsLeases?: boolean
}

/** Settles what killed calls left on this network, and pending cleanups. Never fails the call it is part of. */
export async function settleKilledCalls(
  context: CallContext,
  files: NetworkFiles,
  { release, keepsLeases = false, delegates = false }: Settling = {},
): Promise<void> {
  await endKilledCalls(delegates)
  const isMeant = (record: AttachmentRecord) => !keepsLeases || !isLeaseOfKilledAdd(record)
  const find = () => pendingRecords(files).filter((stored) => isOfKilledCall(context, stored) && isMeant(stored.record))
  const unfinished = find()
  if (unfinished.length > 0) {
    const stuck = await stillAtWork(unfinished)
    const others = () => find().filter(({ file }) => !stuck.has(file))
    await oneAtATime(context, files, { find: others, release }).catch(reportUnsettled)
  }
  await sweep(files, context.identity).catch(reportUnsettled)
}

/** Only a call of a runtime, which has CNI_PATH, can give the lease back; a DEL that was killed is sent again. */
export function isLeaseOfKilledAdd({ delegatedIpam, pendingCleanup }: AttachmentRecord): boolean {
  return delegatedIpam !== undefined && pendingCleanup === undefined
}

/** The files of those whose killed call has something at work that does not end soon: they stay for a later call. */
async function stillAtWork(unfinished: readonly StoredRecord[]): Promise<ReadonlySet<string>> {
  const deadline = { endsAtMs: nowMs() + patienceMs }
  const ended = await Promise.allSettled(unfinished.map(({ record }) => endProcessesOf(record.writer, deadline)))
  for (const each of ended) if (each.status === 'rejected') reportUnsettled(each.reason)
  return new Set(unfinished.filter((_, at) => ended[at]?.status === 'rejected').map(({ file }) => file))
}

/**
 * Takes down every dead attachment of the network: its machine was restarted or its namespace is gone. What others are
 * tearing down now is free afterwards, too. Throws CniError 106 when a signal comes.
 */
export async function reclaimDead(context: CallContext, files: NetworkFiles): Promise<void> {
  await waitForLinks(recordsOf(files).map(({ record }) => record))
  const dead = () => recordsOf(files).filter((stored) => isDead(stored, context))
  if (dead().length > 0) await oneAtATime(context, files, { find: dead })
  await waitForTeardowns(context, files)
  requireUninterrupted(context)
}

/** Gives back what an intent record without a record holds, when its attachment is dead. */
export async function reclaimReservations(
  context: CallContext,
  files: NetworkFiles,
  lost: AttachmentRecord,
): Promise<boolean> {
  await waitForLinks([lost])
  if (!isDead({ file: '', isPending: false, record: lost }, context)) return false
  await endProcessesOf(lost.writer, context.waits)
  // The veth went with the pod; an ifb did not.
  const failures = await remove(context, { files, record: lost }, false)
  for (const failure of failures) reportUnsettled(failure)
  return failures.length === 0
}

/** One call settles a network's orphans, and looks at what there is only then. */
async function oneAtATime(
  context: CallContext,
  files: NetworkFiles,
  { find, release }: { find: () => readonly StoredRecord[]; release?: Release | undefined },
): Promise<void> {
  const lock = { file: files.settleLock, purpose: 'settle killed calls', owner: context.identity, waitMs: lockWaitMs }
  await withLock({ ...lock, deadline: context.waits }, async () => {
    const stored = find()
    const left = await teardownAll(context, files, stored)
    const gone = stored.filter((_, at) => left[at]?.length === 0)
    for (const { record } of gone) await release?.(record)
  })
}

/** Takes attachments down, a few at a time, whatever fails: the failures of each. A signal leaves the rest. */
export async function teardownAll(
  context: CallContext,
  files: NetworkFiles,
  stored: readonly StoredRecord[],
): Promise<readonly (readonly Error[])[]> {
  const left: (readonly Error[])[] = []
  for (let at = 0; at < stored.length; at += atOnce) {
    const some = stored.slice(at, at + atOnce)
    if (isInterrupted(context)) {
      left.push(...some.map(() => [interrupted()]))
      continue
    }
    const ended = await Promise.allSettled(some.map(({ record }) => teardown(context, files, record)))
    left.push(...ended.map((each) => (each.status === 'fulfilled' ? each.value : [toCniError(each.reason)])))
  }
  return left
}

function reportUnsettled(error: Error): void {
  process.stderr.write(`trestle: what killed calls left stays for a later call: ${error.message}\n`)
}

/** Whether nothing can use this attachment any more: its pod or its host is gone. Where that cannot be told, no. */
export function isDead({ record, isPending }: StoredRecord, context: CallContext): boolean {
  if (isPending && !isWriterGone(record)) return false
  const host = hostStateOf(record.writer, context.identity)
  return host === 'ended' || (host === 'here' && podState(record) === 'gone')
}

/**
 * A namespace outlives its path where a process is in it, or where another mount namespace has the path: the host's end
 * of a pair, also of another plugin's, goes only with the namespace (net/core/net_namespace.c, cleanup_net).
 */
export function podState(record: AttachmentRecord): ReturnType<typeof netnsState> {
  const { key, netns } = record
  const state = netnsState(netns)
  const hostLink = key.role === 'main' ? hostLinkName(key) : knownSpec(record)?.chained?.hostLink
  return state === 'gone' && hostLink !== undefined && linkExists(hostLink) ? 'unknown' : state
}

/** The kernel removes a namespace's links shortly after it: waits for those of pods that may be dead. */
export async function waitForLinks(records: readonly AttachmentRecord[]): Promise<void> {
  const mayBeDead = (record: AttachmentRecord) => podState(record) === 'unknown' && netnsState(record.netns) === 'gone'
  for (let looks = 0; looks < mostLooks && records.some(mayBeDead); looks++) await sleep(pauseMs)
}

/** What a killed call of this host left, or a DEL that owes something: not what a running one is tearing down. */
function isOfKilledCall({ identity }: CallContext, { file, record }: StoredRecord): boolean {
  // An ADD may have finished and ended since its record was read: only what is pending after its end was left.
  return isWriterGone(record) && hostStateOf(record.writer, identity) !== 'elsewhere' && existsSync(file)
}
