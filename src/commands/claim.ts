// SPDX-License-Identifier: Apache-2.0
// The claim of an ADD: on disk before anything is reserved or made, taken back with all of it when the ADD fails.

import { CniCode, CniError } from '../cni/error.ts'
import type { Invocation } from '../cni/invocation.ts'
import type { NetConf } from '../cni/net-conf.ts'
import type { AttachmentKey, AttachmentSpec } from '../plan/attachment.ts'
import { configDigest } from '../plan/config-digest.ts'
import { type AttachmentRecord, describeHolder, type NetnsStamp } from '../plan/record.ts'
import { settleListeners } from '../system/listening.ts'
import { reservePorts } from '../system/ports.ts'
import { claim, findRecords, pendingFile } from '../system/records.ts'
import { type NetworkFiles, networkFiles } from '../system/state.ts'
import type { CallContext } from './context.ts'
import { delegateDel, detach, isDead, settleLeftovers } from './detach.ts'

/** One ADD under way. */
export interface Addition {
  readonly context: CallContext
  readonly call: Invocation
  readonly conf: NetConf
  readonly key: AttachmentKey
  readonly files: NetworkFiles
}

/** Claims the attachment, after settling what killed calls left. Throws CniError 103 or 11. */
export async function claimFor(addition: Addition, netns: NetnsStamp): Promise<AttachmentRecord> {
  const { context, files, key, conf } = addition
  await settleLeftovers(context, files)
  for (const stored of findRecords(files, key)) {
    if (stored.isPending || !isDead(stored, context)) throw taken(stored.record, stored.isPending)
    await detach(context, files, stored.record)
  }
  const record: AttachmentRecord = {
    format: 1,
    key,
    writer: context.stamp,
    netns,
    createdAt: new Date().toISOString(),
    ...(conf.pod ? { pod: conf.pod } : {}),
    configDigest: configDigest(conf.stdin),
    ...(conf.ipam.kind === 'delegated' ? { delegatedIpam: conf.ipam.type } : {}),
  }
  if (claim(files, record)) return record
  const other = findRecords(files, key).find((stored) => stored.isPending)
  throw taken(other?.record ?? record, true)
}

/** Host ports are known with the addresses; a dead holder of one is taken down, whatever its network. */
export async function reservePortsOf({ context, files, key, conf }: Addition, spec: AttachmentSpec): Promise<void> {
  const settle = async (record: AttachmentRecord) => {
    if (!isDead({ file: '', isPending: false, record }, context)) return false
    return (await detach(context, networkFiles(record.key.network), record)).length === 0
  }
  const ports = spec.hostPorts?.ports ?? []
  await reservePorts({ claimFile: pendingFile(files, key), key, settle }, ports)
  settleListeners(ports, conf.portmap?.onListening ?? 'warn')
}

/** Runs `body`; when it fails, everything made for the claim is taken back before the error goes on. */
export async function undoneOnError<T>(
  addition: Addition,
  record: AttachmentRecord,
  body: () => Promise<T>,
): Promise<T> {
  try {
    return await body()
  } catch (error) {
    const { context, files, call, conf } = addition
    const latest = findRecords(files, record.key).find((stored) => stored.isPending)?.record ?? record
    const failures = [...(await detach(context, files, latest))]
    if (conf.ipam.kind === 'delegated') {
      // Section 4: a delegated plugin gets a DEL when ADD fails, whether or not it was reached.
      await delegateDel(context, call, { type: conf.ipam.type, stdin: conf.stdin }).catch((failure: Error) =>
        failures.push(failure),
      )
    }
    for (const failure of failures) process.stderr.write(`trestle: undoing ADD: ${failure.message}\n`)
    throw error
  }
}

function taken(holder: AttachmentRecord, isPending: boolean): CniError {
  const { containerId, ifName, network } = holder.key
  if (isPending) {
    return new CniError(CniCode.tryAgainLater, `another call is working on ${ifName} of container ${containerId}`, {
      details: `process ${holder.writer.pid} since ${holder.createdAt}`,
    })
  }
  return new CniError(
    CniCode.attachmentExists,
    `container ${containerId} already has ${ifName} on network ${network}`,
    {
      details: `${describeHolder(holder)}, since ${holder.createdAt}; a runtime sends DEL before it sends ADD again`,
    },
  )
}
