// SPDX-License-Identifier: Apache-2.0
// DEL: from container id, interface name and our record alone. It comes twice per pod, with and
// without a namespace, after changed configurations and lost state; it succeeds when nothing of the
// attachment is left (docs/design.md, "DEL").

import { CniError } from '../../cni/error.ts'
import type { Invocation } from '../../cni/invocation.ts'
import type { DelConf } from '../../config/net-conf.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import { networkFiles, requireState } from '../../system/files/state.ts'
import { requireOwnHost } from '../../system/kernel/host-namespace.ts'
import { endKilledCalls } from '../../system/process/call-processes.ts'
import { defaultDataDir, releaseUpstreamAddresses } from '../../system/upstream/host-local-leases.ts'
import { findUpstream, removeUpstream } from '../../system/upstream/upstream-attachment.ts'
import { askedFor, isInProgress, keyOf } from '../call/attachment-records.ts'
import type { CallContext } from '../call/context.ts'
import { noteDevice, removeWithoutRecord, reserveWhatItHas } from '../recover/without-record.ts'
import { settleKilledCalls, teardown } from '../teardown/attachments.ts'
import { configurationOf, releaseWith, returnLease } from '../teardown/delegated-lease.ts'
import { removeWhenEmpty } from '../teardown/remove-network.ts'
import { delLoopback } from './loopback.ts'

/**
 * Detaches the pod. Throws only a delegate's error, after all our own work is done, or CniError 11
 * when a live ADD of the same attachment is under way, another call keeps it waiting for too long, or not even a
 * pending cleanup can be written down, 106 when a signal ends its wait for others, 111 when the ADD was in another host
 * network namespace: what is left is written down, and DEL is sent again.
 */
export async function del(context: CallContext, call: Invocation, conf: DelConf): Promise<void> {
  if (conf.isLoopback) return await delLoopback(context, call)
  requireState(conf.name)
  const files = networkFiles(conf.name)
  const delegates = conf.delegatedIpam !== undefined
  await endKilledCalls(delegates)
  const { meant, isCertain } = await askedFor(context, call, conf)
  // Nothing of it could be removed from here, and its record and reservations would be gone.
  for (const { record } of meant) requireOwnHost(record, context.identity)
  for (const stored of meant) {
    if (isInProgress(stored)) throw inProgress(call, stored.record.writer.pid)
    const { key, spec } = stored.record
    if (spec === undefined && !stored.isPending) {
      await reserveWhatItHas(context, networkFiles(key.network), { call, conf, key })
      await noteDevice(context, networkFiles(key.network), { call, conf, record: stored.record })
    }
    await orPending(stored.record, () => teardown(context, networkFiles(key.network), stored.record))
  }
  if (meant.length === 0) await removeOthers(context, { call, conf })
  const recorded = meant.flatMap(({ record: { key } }) => (key.network === conf.name ? [key.role] : []))
  if (!isCertain) await removeWithoutRecord(context, files, { call, conf, recorded, orPending })
  const release = releaseWith(context, call, { stdin: conf.stdin, delegates })
  await settleKilledCalls(context, files, { release, delegates })
  const networks = new Set([conf.name, ...meant.map(({ record }) => record.key.network)])
  for (const network of networks) await removeWhenEmpty(context, networkFiles(network))
  // The configuration may have changed since: the lease is with whoever gave it.
  const leased = meant.find(({ record }) => record.delegatedIpam !== undefined)?.record
  const hasNone = meant.length > 0 && meant.every(({ record }) => isWithoutLease(record))
  const type = leased?.delegatedIpam ?? (hasNone ? undefined : conf.delegatedIpam)
  const stdin = leased === undefined ? conf.stdin : configurationOf(leased, conf.stdin)
  // Of a record without the `ipam` of then, and by a configuration without any, the plugin would refuse it.
  if (type !== undefined && !(conf.isWithoutIpam && leased?.ipam === undefined))
    await returnLease(context, { type, path: call.path, stdin, attachment: call })
}

/** Whether a record without a delegated plugin says that none was asked; one of the upstream chain's does not. */
function isWithoutLease({ key, spec, adopted }: AttachmentRecord): boolean {
  return key.role === 'chained' || (spec !== undefined && adopted === undefined)
}

/** What fails is reported where it could be written down, else thrown as CniError 11. */
async function orPending({ key }: AttachmentRecord, teardown: () => Promise<readonly Error[]>): Promise<void> {
  try {
    const failures = await teardown()
    for (const failure of failures) process.stderr.write(`trestle: DEL: pending cleanup: ${failure.message}\n`)
  } catch (cause) {
    if (cause instanceof CniError || !('errno' in (cause as object))) throw cause
    throw new CniError(
      'cleanup-not-recorded',
      `cannot write down the pending cleanup of ${key.ifName} of container ${key.containerId}`,
      {
        details: `${failureOf(cause as NodeJS.ErrnoException)}; make the state directory writable, DEL is sent again`,
        cause,
      },
    )
  }
}

/**
 * Without the system's own words: containerd takes a DEL for done whose error says "no such file or directory"
 * (go-cni, Remove), and would not send it again.
 */
function failureOf({ code, syscall, path }: NodeJS.ErrnoException): string {
  return [`${code} on ${syscall}`, path].filter(Boolean).join(' ')
}

/** The upstream chain made it, before the node was switched. What fails keeps its reservation, for a later DEL. */
async function removeOthers(context: CallContext, { call, conf }: { call: Invocation; conf: DelConf }): Promise<void> {
  const key = keyOf(call, conf, conf.role)
  const dataDir = conf.dataDir ?? defaultDataDir
  // A chained part has none of the pod's addresses.
  if (conf.role === 'chained') return
  if (conf.role === 'ipam') return releaseUpstreamAddresses(dataDir, conf.name, call)
  const found = findUpstream(key, conf, dataDir)
  if (found === undefined) return
  const openPod = call.netns === '' ? undefined : () => context.openNetns(call.netns)
  const failures = await removeUpstream(context.cleanup, found, openPod)
  for (const failure of failures)
    process.stderr.write(`trestle: DEL: left of the upstream plugins: ${failure.message}\n`)
}

function inProgress(call: Invocation, pid: number): CniError {
  return new CniError('attachment-busy', `another call is working on ${call.ifName} of container ${call.containerId}`, {
    details: `process ${pid}; a runtime runs one call per container at a time`,
  })
}
