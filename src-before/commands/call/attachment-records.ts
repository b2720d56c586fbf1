// SPDX-License-Identifier: Apache-2.0
// Which attachments a DEL is about: those of its ids and its network, and where there are none, those that the network
// made under another name.

import { existsSync } from 'node:fs'
import type { Invocation } from '../../cni/invocation.ts'
import type { DelConf } from '../../config/net-conf.ts'
import type { AttachmentKey, Role } from '../../model/attachment.ts'
import { type AttachmentRecord, type NetnsIdentity, sameKey } from '../../model/record.ts'
import { configDigest, configDigestAs } from '../../plan/state/config-digest.ts'
import { networkDirectories, networkFiles, requireState } from '../../system/files/state.ts'
import { timestamp } from '../../system/process/clock.ts'
import { isWriterGone } from '../../system/process/process-identity.ts'
import { waitForHolder, withLock } from '../../system/store/lock.ts'
import { findRecords, type StoredRecord, writeFinished } from '../../system/store/records.ts'
import type { CallContext } from './context.ts'
import { attachmentLock } from './locks.ts'

/** `isCertain`: one of them was made with the configuration of the DEL, so that no other part of the list is meant. */
interface Asked {
  readonly meant: readonly StoredRecord[]
  readonly isCertain: boolean
}

/** Waits for another DEL of the same under way. Throws CniError 11 when it takes too long, 106 at a signal. */
export async function askedFor(context: CallContext, call: Invocation, conf: DelConf): Promise<Asked> {
  const asked = meantBy(conf, await recordsFor(context, call, conf))
  if (asked.meant.length > 0) return asked
  return { meant: recordsOfOtherNames(call, conf, rolesOf(conf)), isCertain: false }
}

/** The attachment of a call's ids on its network, in one role. */
export function keyOf(call: Invocation, conf: DelConf, role: Role): AttachmentKey {
  return { network: conf.name, containerId: call.containerId, ifName: call.ifName, role }
}

/** A delegated DEL is only ever about its own reservation. */
export function rolesOf(conf: DelConf): readonly Role[] {
  return conf.role === 'ipam' ? ['ipam'] : ['chained', 'main']
}

export function isInProgress({ record, isPending }: StoredRecord): boolean {
  return isPending && record.pendingCleanup === undefined && !isWriterGone(record)
}

/** The attachment's records. Another DEL that only gives things back looks like an ADD, but for its lock. */
async function recordsFor(context: CallContext, call: Invocation, conf: DelConf): Promise<readonly StoredRecord[]> {
  const find = () => rolesOf(conf).flatMap((role) => findRecords(networkFiles(conf.name), keyOf(call, conf, role)))
  const records = find()
  const busy = records.filter(isInProgress)
  if (busy.length === 0) return records
  for (const { record } of busy) await waitForHolder(attachmentLock(context, record.key, 'delete the attachment'))
  return find()
}

/**
 * Both plugins of a list get the same ids: where the configuration is the one a chained attachment
 * was made with, that one is meant and no other; a configuration nobody knows means all of them.
 */
function meantBy(conf: DelConf, records: readonly StoredRecord[]): Asked {
  const digest = configDigest(conf)
  const exact = records.filter(({ record }) => record.configDigest === digest)
  return exact.length > 0 ? { meant: exact, isCertain: true } : { meant: records, isCertain: false }
}

// A network that was given another name under live pods: runtimes send DEL with the configuration of that moment, and
// container id and interface find the record of the old name.

const allRoles: readonly Role[] = ['main', 'chained', 'ipam']

/**
 * The records that other networks have of the attachment, of those roles: where the configuration is theirs but for the
 * name, or where the namespace is gone or not told, since no pod can be alive on them then. None that a pod has which
 * the asked network was refused or given up for: it is alive on its own network. Throws CniError 5 as requireState
 * does.
 */
function recordsOfOtherNames(call: Invocation, conf: DelConf, roles: readonly Role[]): readonly StoredRecord[] {
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName }
  const found = recordsBeside(key, roles).filter(({ record }) => record.notOf?.includes(conf.name) !== true)
  // Whoever can write there decides what we remove (state.ts): of the asked network that was looked at before.
  for (const { record } of found) requireState(record.key.network)
  const same = found.filter(({ record }) => configDigestAs(conf, record.key.network) === record.configDigest)
  if (same.length > 0) return same
  return call.netns === '' || !existsSync(call.netns) ? found : []
}

/**
 * Writes down that an attachment which was never finished is not one that another network has under the same ids: its
 * ADD was refused or killed, and a DEL of it may come when nothing else tells them apart. A failure is reported on
 * stderr.
 */
export async function keepApart(context: CallContext, { key }: AttachmentRecord): Promise<void> {
  for (const { record, isPending } of recordsBeside(key, allRoles)) {
    if (isPending || record.notOf?.includes(key.network)) continue
    const files = networkFiles(record.key.network)
    const lock = { ...attachmentLock(context, record.key, 'tell two attachments apart'), isDispensable: true } as const
    await withLock(lock, () => {
      const now = findRecords(files, record.key).find((stored) => !stored.isPending)?.record
      if (now?.createdAt === record.createdAt && sameKey(now.key, record.key))
        writeFinished(files, { ...now, notOf: [...(now.notOf ?? []), key.network] })
    }).catch((error: Error) => {
      process.stderr.write(`trestle: a DEL of network ${key.network} may be taken for one of it: ${error.message}\n`)
    })
  }
}

/** What networks other than the key's have of the same container and interface. */
function recordsBeside(
  { network, containerId, ifName }: Omit<AttachmentKey, 'role'>,
  roles: readonly Role[],
): readonly StoredRecord[] {
  const own = networkFiles(network)
  const others = networkDirectories().filter(({ directory }) => directory !== own.directory)
  return others.flatMap((files) => roles.flatMap((role) => findRecords(files, { network, containerId, ifName, role })))
}

// The record of an attachment of which no more is known than whose it is: its links follow from its name, what it has
// reserved says so itself, and DEL finds the rest in our tables.

const unknown: NetnsIdentity = { path: '', inode: 0 }

/** As written by this call, now. `netns`: where it is known. */
export function withoutSpec({ identity }: CallContext, key: AttachmentKey, netns = unknown): AttachmentRecord {
  return { key, writer: identity, netns, createdAt: timestamp(), configDigest: '' }
}
