// SPDX-License-Identifier: Apache-2.0
// DEL: needs container id and interface name only, and succeeds when nothing of the attachment is left.

import type { Call } from '../cni/call.ts'
import { CniError, Code, toCniError } from '../cni/errors.ts'
import type { DelConf } from '../config/network-conf.ts'
import { hostLinkName, ifbName } from '../drivers/names.ts'
import type { AttachmentId } from '../drivers/spec.ts'
import { delegate } from '../ipam/delegate.ts'
import { releaseHostLocal } from '../ipam/host-local-files.ts'
import { closeNetns, netnsState, openNetnsIfThere } from '../kernel/netns.ts'
import { linkExists } from '../kernel/proc.ts'
import { isTaken, namesIn } from '../state/files.ts'
import {
  attachmentLockFile,
  markerFile,
  networkDirectory,
  recordName,
  requireStateIfThere,
  stateRoot,
} from '../state/layout.ts'
import { waitForLock } from '../state/lock.ts'
import {
  type AttachmentRecord,
  allRecords,
  describeRecord,
  findFinished,
  findRecord,
  isBeingWritten,
  isDead,
} from '../state/records.ts'
import { reservationsOf } from '../state/reservations.ts'
import type { Context } from './context.ts'
import { detach, detachWithoutRecord } from './detach.ts'
import { delLoopback } from './loopback.ts'
import { reportLeft, settleKilledCalls } from './settle.ts'

export async function del(call: Call, conf: DelConf, context: Context): Promise<void> {
  if (conf.isLoopback) return await delLoopback(call, context)
  const hasState = requireStateIfThere(conf.name)
  const errors: CniError[] = []
  const record = hasState ? findRecordOf(call, conf) : undefined
  if (hasState) await settleKilledCalls(conf.name, context, record?.id)
  if (record !== undefined) {
    refuseWhileWritten(record)
    errors.push(...(await detach(record, context, true)))
  } else errors.push(...(await removeUnrecorded(call, conf, context)))
  releaseHostLocal(conf.dataDir, conf.name, { containerId: call.containerId, ifName: call.ifName })
  // What is left stays in the record. A delegated plugin's error is passed on (CNI spec 1.1.0, section 4).
  const ofPlugin = errors.filter(
    ({ id }) => id.startsWith('ipam-plugin') || (id === 'command-too-slow' && record?.delegated !== undefined),
  )
  for (const error of errors) if (!ofPlugin.includes(error)) reportLeft(error)
  if (ofPlugin.length > 0) throw new AggregateError(ofPlugin)
}

/** By the ids; the configuration only guesses the role. */
function findRecordOf(
  { containerId, ifName, netns }: Call,
  { name: network, role }: DelConf,
): AttachmentRecord | undefined {
  const roles =
    role === 'ipam'
      ? (['ipam'] as const)
      : role === 'chained'
        ? (['chained', 'main'] as const)
        : (['main', 'chained'] as const)
  for (const each of roles) {
    const record = findRecord({ network, containerId, ifName, role: each })
    if (record !== undefined) return record
  }
  // Under a new name of the network, where the pod's namespace is gone: a live pod of another network is not meant.
  if (isNetnsThere(netns)) return undefined
  return allRecords().find(
    (record) =>
      record.id.containerId === containerId &&
      record.id.ifName === ifName &&
      (record.id.role === 'ipam') === (role === 'ipam') &&
      // Its host link may be there for a moment longer.
      (isDead(record) || netnsState(record.netns) === 'gone'),
  )
}

function isNetnsThere(path: string): boolean {
  const netns = openNetnsIfThere(path)
  closeNetns(netns)
  return netns !== undefined
}

/** An ADD of the attachment is at work. A removal that another call has begun is taken over. */
function refuseWhileWritten(record: AttachmentRecord): void {
  if (record.isLeaving || findFinished(record.id) !== undefined || !isBeingWritten(record)) return
  const message = `${describeRecord(record)} is being attached by process ${record.writer.pid}`
  throw new CniError(Code.tryAgainLater, 'attachment-busy', message, { details: 'the runtime tries again' })
}

/** Without a record a second DEL starts no process, but in modes that only a look into the pod tells of, or a delegate's. */
async function removeUnrecorded(call: Call, conf: DelConf, context: Context): Promise<readonly CniError[]> {
  const { containerId, ifName } = call
  const errors: CniError[] = []
  const roles = conf.role === 'ipam' ? (['ipam'] as const) : (['main', 'chained'] as const)
  for (const role of roles) {
    const id: AttachmentId = { network: conf.name, containerId, ifName, role }
    // A DEL that was killed after its record was gone has left its lock.
    await waitForLock({ file: attachmentLockFile(id), purpose: 'remove an attachment', deadline: context.deadline })
    const pod = role === 'main' && conf.inPod ? { ...conf.inPod, netns: call.netns } : undefined
    if (pod !== undefined || mayHaveMore(id)) errors.push(...(await detachWithoutRecord(id, context, pod)))
  }
  if (conf.delegatedIpam !== undefined) {
    try {
      await delegate(context.machine, { type: conf.delegatedIpam, verb: 'DEL', path: call.path, stdin: conf.stdin })
    } catch (error) {
      errors.push(toCniError(error))
    }
  }
  return errors
}

function mayHaveMore(id: AttachmentId): boolean {
  if (id.role !== 'ipam' && (linkExists(ifbName(id)) || (id.role === 'main' && linkExists(hostLinkName(id)))))
    return true
  if (reservationsOf(id).length > 0) return true
  const name = recordName(id)
  if (namesIn(`${stateRoot()}/damaged`).some((each) => each.includes(name))) return true
  // Where state was lost elements may be all that is left.
  const isLost = !isTaken(markerFile()) || !isTaken(networkDirectory(id.network))
  return id.role !== 'ipam' && isLost
}
