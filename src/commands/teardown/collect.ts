// SPDX-License-Identifier: Apache-2.0
// Collects garbage without the runtime: all networks, from records, namespaces and what the runtime
// lists. What is collected is torn down as by DEL.

import { setTimeout as sleep } from 'node:timers/promises'
import { CniError } from '../../cni/error.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import {
  type AttachmentFacts,
  type AttachmentVerdict,
  judgeAttachment,
  youngestMs,
} from '../../plan/recovery/verdicts.ts'
import { networkDirectories, networkFiles, requireStateIfThere } from '../../system/files/state.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { netnsState } from '../../system/kernel/netns.ts'
import { endKilledCalls } from '../../system/process/call-processes.ts'
import { isOlder } from '../../system/process/process-identity.ts'
import { allRecords, pendingRecords } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { isLeaseOfKilledAdd, settleKilledCalls, teardownAll } from './attachments.ts'
import { removeWhenEmpty } from './remove-network.ts'

/** Container ids that the runtime lists, or undefined when no runtime could be asked. */
export type Listed = ReadonlySet<string> | undefined

/** What happened to an attachment that was to be collected. */
export interface Collected extends AttachmentVerdict {
  readonly failures: readonly string[]
}

/**
 * A namespace that a runtime is just making or removing is a plain file for a moment: how often it is looked at, and
 * when again.
 */
const mostLooks = 5
const pauseMs = 100

/**
 * Judges every finished attachment. Throws CniError 5 when namespaces cannot be told from plain files
 * here: in another mount namespace every pod would look dead.
 */
export async function judgeAll(context: CallContext, listed: Listed): Promise<readonly AttachmentVerdict[]> {
  requireStateIfThere()
  for (let looks = 1; ; looks++) {
    const { facts, hidden } = look(context, listed)
    if (hidden === undefined) return facts.map(judgeAttachment)
    if (looks === mostLooks) throw notVisible(hidden.record)
    await sleep(pauseMs)
  }
}

/** `hidden`: one whose namespace is a plain file. */
function look(
  context: CallContext,
  listed: Listed,
): { facts: readonly AttachmentFacts[]; hidden: AttachmentFacts | undefined } {
  const records = allRecords().filter(({ isPending }) => !isPending)
  const facts = records.map(({ record }) => ({
    record,
    netns: netnsState(record.netns),
    host: hostStateOf(record.writer, context.identity),
    isListed: listed?.has(record.key.containerId),
    isOld: isOlder(record.writer, Date.parse(record.createdAt), youngestMs),
  }))
  const hidden = facts.find(
    ({ netns, record, host }) => netns === 'unknown' && record.netns.path !== '' && host === 'here',
  )
  return { facts, hidden }
}

/** Takes down what is judged garbage, and settles what killed calls left. `tell`: gets what is under way. */
export async function collect(
  context: CallContext,
  verdicts: readonly AttachmentVerdict[],
  progress: (text: string) => void,
): Promise<readonly Collected[]> {
  await endKilledCalls(true)
  const collected: Collected[] = []
  const garbage = verdicts.filter(({ verdict }) => verdict === 'collect')
  for (const [at, each] of garbage.entries()) {
    progress(`collecting ${at + 1} of ${garbage.length}: ${each.record.key.containerId}`)
    const stored = { file: '', isPending: false, record: each.record }
    const failures = (await teardownAll(context, networkFiles(each.record.key.network), [stored])).flat()
    collected.push({ ...each, failures: failures.map((failure) => failure.message) })
  }
  for (const files of networkDirectories()) {
    progress(`settling what killed calls left in ${files.directory}`)
    await settleKilledCalls(context, files, { keepsLeases: true })
    for (const { record } of pendingRecords(files)) if (isLeaseOfKilledAdd(record)) tellOfLease(record)
    await removeWhenEmpty(context, files)
  }
  return collected
}

function tellOfLease({ key, delegatedIpam, writer }: AttachmentRecord): void {
  const whose = `${key.ifName} of container ${key.containerId} (network ${key.network}, process ${writer.pid})`
  const why = `the IPAM plugin ${delegatedIpam} has its lease, and the next ADD or DEL of the network gives it back`
  process.stderr.write(`trestle: what an ADD made of ${whose} stays: ${why}\n`)
}

function notVisible(record: AttachmentRecord): CniError {
  return new CniError('netns-not-visible', `cannot see network namespaces from here: ${record.netns.path}`, {
    details: 'it is no namespace file in this mount namespace; run gc where the runtime runs (nsenter -t 1 -m)',
  })
}
