// SPDX-License-Identifier: Apache-2.0
// A network that was given another name under live pods: runtimes send DEL with the configuration of that moment, and
// container id and interface find the record of the old name.

import { existsSync } from 'node:fs'
import type { Invocation } from '../../cni/model/invocation.ts'
import type { DelConf, Role } from '../../cni/model/net-conf.ts'
import type { AttachmentKey } from '../../plan/model/attachment.ts'
import { type AttachmentRecord, sameKey } from '../../plan/model/record.ts'
import { configDigestAs } from '../../plan/recovery/config-digest.ts'
import { networkDirectories, networkFiles, requireState } from '../../system/files/state.ts'
import { withLock } from '../../system/store/lock.ts'
import { findRecords, type StoredRecord, writeFinished } from '../../system/store/records.ts'
import { attachmentLock } from './attachment-lock.ts'
import type { CallContext } from './context.ts'

const allRoles: readonly Role[] = ['main', 'chained', 'ipam']

/**
 * The records that other networks have of the attachment, of those roles: where the configuration is theirs but for the
 * name, or where the namespace is gone or not told, since no pod can be alive on them then. None that a pod has which
 * the asked network was refused or given up for: it is alive on its own network. Throws CniError 5 as requireState
 * does.
 */
export function recordsOfOtherNames(call: Invocation, conf: DelConf, roles: readonly Role[]): readonly StoredRecord[] {
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
