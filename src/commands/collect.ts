// SPDX-License-Identifier: Apache-2.0
// Collects garbage without the runtime: all networks, from records, namespaces and what the runtime
// lists. What is collected is taken down as by DEL.

import { CniCode, CniError } from '../cni/error.ts'
import { judge, type Verdict, youngestMs } from '../plan/garbage.ts'
import type { AttachmentRecord } from '../plan/record.ts'
import { netnsState } from '../system/netns.ts'
import { allRecords } from '../system/records.ts'
import { isOlder } from '../system/stamp.ts'
import { networkDirectories, networkFiles, requireState } from '../system/state.ts'
import type { CallContext } from './context.ts'
import { detachAll, settleLeftovers } from './detach.ts'
import { removeWhenEmpty } from './remove-network.ts'

/** Container ids that the runtime lists, or undefined when no runtime could be asked. */
export type Listed = ReadonlySet<string> | undefined

/** What happened to an attachment that was to be collected. */
export interface Collected extends Verdict {
  readonly failures: readonly string[]
}

/**
 * Judges every finished attachment. Throws CniError 5 when namespaces cannot be told from plain files
 * here: in another mount namespace every pod would look dead.
 */
export function judgeAll(context: CallContext, listed: Listed): readonly Verdict[] {
  requireState()
  const records = allRecords().filter(({ isPending }) => !isPending)
  const facts = records.map(({ record }) => ({
    record,
    netns: netnsState(record.netns),
    isThisBoot: record.writer.bootId === context.stamp.bootId,
    isListed: listed?.has(record.key.containerId),
    isOld: isOlder(record.writer, Date.parse(record.createdAt), youngestMs),
  }))
  const hidden = facts.find(
    ({ netns, record, isThisBoot }) => netns === 'unknown' && record.netns.path !== '' && isThisBoot,
  )
  if (hidden !== undefined) throw notVisible(hidden.record)
  return facts.map(judge)
}

/** Takes down what is judged garbage, and settles what killed calls left. `tell`: gets what is under way. */
export async function collect(
  context: CallContext,
  verdicts: readonly Verdict[],
  tell: (text: string) => void,
): Promise<readonly Collected[]> {
  const collected: Collected[] = []
  const garbage = verdicts.filter(({ verdict }) => verdict === 'collect')
  for (const [at, each] of garbage.entries()) {
    tell(`collecting ${at + 1} of ${garbage.length}: ${each.record.key.containerId}`)
    const stored = { file: '', isPending: false, record: each.record }
    const failures = (await detachAll(context, networkFiles(each.record.key.network), [stored])).flat()
    collected.push({ ...each, failures: failures.map((failure) => failure.message) })
  }
  for (const files of networkDirectories()) {
    tell(`settling what killed calls left in ${files.directory}`)
    await settleLeftovers(context, files)
    await removeWhenEmpty(context, files)
  }
  return collected
}

function notVisible(record: AttachmentRecord): CniError {
  return new CniError(CniCode.ioFailure, `cannot see network namespaces from here: ${record.netns.path}`, {
    details: 'it is no namespace file in this mount namespace; run gc where the runtime runs (nsenter -t 1 -m)',
  })
}
