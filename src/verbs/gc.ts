// SPDX-License-Identifier: Apache-2.0
// GC: removes what is not on the runtime's list, of its own network only. Without a list it removes nothing; with `null`,
// which CRI-O sends for networks that it does not know, only what is dead, and no delegate is called.

import type { Call } from '../cni/call.ts'
import { type CniError, toCniError } from '../cni/errors.ts'
import type { NetworkConf } from '../config/network-conf.ts'
import { readAlias, shortId } from '../drivers/names.ts'
import { delegate } from '../ipam/delegate.ts'
import { lookAtHost } from '../kernel/look.ts'
import { podLinkNames } from '../kernel/proc.ts'
import { endKilledCalls } from '../process/killed-calls.ts'
import { namesIn } from '../state/files.ts'
import { networkDirectory, requireStateIfThere } from '../state/layout.ts'
import { isAbandoned, waitForLock } from '../state/lock.ts'
import { type AttachmentRecord, findRecord, isBeingWritten, isDead, recordsOf } from '../state/records.ts'
import type { Context } from './context.ts'
import { detach, detachWithoutRecord } from './detach.ts'

/** So many removals run at once. */
const mostAtOnce = 8

export async function gc(call: Call, conf: NetworkConf, context: Context): Promise<void> {
  const { validAttachments: valid } = conf
  const errors: CniError[] = []
  await endKilledCalls(undefined, context.deadline.endsAtMs)
  if (valid !== undefined && requireStateIfThere(conf.name)) {
    if (valid === null)
      process.stderr.write(`trestle: GC: the list of ${conf.name} is null: only dead attachments go\n`)
    // An alias has a long id shortened.
    const isListed = ({ id }: Pick<AttachmentRecord, 'id'>) =>
      valid?.some((each) => shortId(id.containerId) === shortId(each.containerId) && id.ifName === each.ifName) === true
    const isStale = (record: AttachmentRecord) => (valid === null ? isDead(record) : !isListed(record))
    const stale = recordsOf(conf.name).filter((record) => !isBeingAdded(record) && isStale(record))
    errors.push(...(await detachAll(stale, context)))
    if (valid !== null) errors.push(...(await detachUnrecorded(conf, isListed, context)))
    await removeAbandonedLocks(conf.name, context)
  }
  if (conf.ipam.kind === 'delegated' && valid !== null) {
    try {
      await delegate(context.machine, { type: conf.ipam.type, verb: 'GC', path: call.path, stdin: conf.stdin })
    } catch (error) {
      errors.push(toCniError(error))
    }
  }
  if (errors.length > 0) throw new AggregateError(errors)
}

/** A removal that was killed after its record was gone leaves its lock, which no other call takes. */
async function removeAbandonedLocks(network: string, { deadline }: Context): Promise<void> {
  const files = namesIn(`${networkDirectory(network)}/locks`).map(
    (name) => `${networkDirectory(network)}/locks/${name}`,
  )
  for (const file of files.filter(isAbandoned)) await waitForLock({ file, purpose: 'remove a lock', deadline })
}

/** A call in progress is not on the list yet. */
function isBeingAdded(record: AttachmentRecord): boolean {
  return record.isLeaving === undefined && isBeingWritten(record)
}

/** Removes several attachments, and goes on after a failure. */
export async function detachAll(records: readonly AttachmentRecord[], context: Context): Promise<readonly CniError[]> {
  const errors: CniError[] = []
  const left = [...records]
  const work = async () => {
    for (let record = left.shift(); record !== undefined; record = left.shift()) {
      try {
        errors.push(...(await detach(record, context)))
      } catch (error) {
        errors.push(toCniError(error))
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(mostAtOnce, records.length) }, work))
  return errors
}

/** Links of ours, by their aliases, that no record is of. */
async function detachUnrecorded(
  conf: NetworkConf,
  isListed: (of: Pick<AttachmentRecord, 'id'>) => boolean,
  context: Context,
): Promise<readonly CniError[]> {
  const names = podLinkNames()
  if (conf.mode === 'ipam' || names.length <= recordsOf(conf.name).length) return []
  const { links } = await lookAtHost(context.machine, names)
  const errors: CniError[] = []
  for (const { name, alias } of links.values()) {
    const id = readAlias(name, alias)?.id
    if (id === undefined || id.network !== conf.name || isListed({ id }) || findRecord(id) !== undefined) continue
    errors.push(...(await detachWithoutRecord(id, context)))
  }
  return errors
}
