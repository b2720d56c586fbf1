// SPDX-License-Identifier: Apache-2.0
// The intent record of an ADD: it says whose the attachment is, before anything is reserved. Two ADDs of the same ids meet
// here; what an earlier attachment of them has left is removed first.

import { CniError, Code, oneLine } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import type { NetworkConf } from '../config/network-conf.ts'
import type { AttachmentId } from '../drivers/spec.ts'
import { lookAtPod } from '../kernel/look.ts'
import type { OpenNetns } from '../kernel/netns.ts'
import { ownIdentity } from '../process/clock.ts'
import { removeFile } from '../state/files.ts'
import { pendingFile } from '../state/layout.ts'
import {
  type AttachmentRecord,
  createIntent,
  describeRecord,
  findFinished,
  findPending,
  findRecord,
  isBeingWritten,
  isDead,
  recordFormat,
} from '../state/records.ts'
import type { Context } from './context.ts'
import { detach } from './detach.ts'

interface Claim {
  readonly id: AttachmentId
  readonly conf: NetworkConf
  readonly netns: OpenNetns | undefined
}

/** The record that says whose the attachment is, before anything is reserved. Throws CniError 103, 7 or 11. */
export async function writeIntent({ id, conf, netns }: Claim, context: Context): Promise<AttachmentRecord> {
  const intent: AttachmentRecord = {
    format: recordFormat,
    id,
    writer: ownIdentity(),
    netns: netns?.identity ?? { path: '', inode: 0 },
    createdAt: new Date().toISOString(),
    ...defined({
      pod: conf.pod,
      askedBy: process.env['TRESTLE_ASKED_BY'] === 'hand' ? ('hand' as const) : undefined,
      delegated: conf.ipam.kind === 'delegated' ? { type: conf.ipam.type, stdin: conf.stdin } : undefined,
    }),
  }
  if (conf.mode === 'chained') refuseSecondEntry(id)
  for (let attempt = 0; attempt < 3; attempt++) {
    const finished = findFinished(id)
    const isLeft = finished !== undefined && (isDead(finished) || (await isElsewhere(finished, netns, context)))
    if (finished !== undefined && !isLeft) throw attachedAlready(finished)
    if (finished !== undefined) await removeBefore(finished, context)
    if (createIntent(intent)) {
      // Another call of the same ids may have finished between the look and the intent.
      const other = findFinished(id)
      if (other === undefined) return intent
      removeFile(pendingFile(id))
      throw attachedAlready(other)
    }
    const pending = findPending(id)
    if (pending !== undefined && isBeingWritten(pending)) {
      const message = `${describeRecord(pending)} is being attached or removed by process ${pending.writer.pid}`
      throw new CniError(Code.tryAgainLater, 'attachment-busy', message, { details: 'the runtime tries again' })
    }
    if (pending !== undefined) await removeBefore(pending, context)
  }
  const message = `${id.ifName} of container ${id.containerId} is worked on by other calls`
  throw new CniError(Code.tryAgainLater, 'attachment-busy', message, { details: 'the runtime tries again' })
}

/** Of a record that was found again by its link: whether the pod of this call has no such interface. */
async function isElsewhere(
  { netns: { path }, id }: AttachmentRecord,
  netns: OpenNetns | undefined,
  { machine }: Context,
): Promise<boolean> {
  if (path !== '' || netns === undefined || id.role !== 'main') return false
  return !(await lookAtPod(machine, netns)).pod.links.has(id.ifName)
}

/** What a dead or killed attachment of the same ids has left goes first. */
async function removeBefore(record: AttachmentRecord, context: Context): Promise<void> {
  const [first] = await detach(record, context)
  if (first === undefined) return
  const message = `what an earlier attachment of ${describeRecord(record)} left could not be removed`
  throw new CniError(Code.tryAgainLater, 'attachment-busy', message, {
    details: oneLine(first.message),
    cause: first,
  })
}

/** A list has one entry of trestle. */
function refuseSecondEntry(id: AttachmentId): void {
  const main = findRecord({ ...id, role: 'main' })
  if (main === undefined || isDead(main)) return
  throw new CniError(Code.invalidConfig, 'chained-twice', 'trestle is twice in its list', {
    details: 'put its keys into the first: it does all of it in one run',
  })
}

function attachedAlready(record: AttachmentRecord): CniError {
  const { containerId, ifName, role } = record.id
  const message = `container ${containerId} already has ${ifName}: ${describeRecord(record)}`
  const other =
    role === 'chained' ? 'where trestle is twice in its list, put its keys into the first' : 'or use another CNI_IFNAME'
  return new CniError(Code.attachmentExists, 'already-attached', message, { details: `send DEL first; ${other}` })
}
