// SPDX-License-Identifier: Apache-2.0
// DEL: from container id, interface name and our record alone. It comes twice per pod, with and
// without a namespace, after changed configurations and lost state; it succeeds when nothing of the
// attachment is left (contract §3).

import { CniCode, CniError } from '../cni/error.ts'
import type { Invocation } from '../cni/invocation.ts'
import { lookUp } from '../cni/json-keys.ts'
import { asObject } from '../cni/json-object.ts'
import type { DelConf, Role } from '../cni/net-conf.ts'
import { readPrevResult } from '../cni/result-shapes.ts'
import type { AttachmentKey } from '../plan/attachment.ts'
import { configDigest } from '../plan/config-digest.ts'
import { addressesOf as podAddressesOf } from '../plan/libcni-cache.ts'
import { hostLinkName, ifbName } from '../plan/names.ts'
import { mappingsOf } from '../plan/remembered-ports.ts'
import { addressesOf } from '../system/addresses.ts'
import { linkExists } from '../system/kernel-files.ts'
import { waitForHolder } from '../system/lock.ts'
import { portsOf } from '../system/ports.ts'
import { claim, findRecords, type StoredRecord } from '../system/records.ts'
import { findReference, removeReference } from '../system/reference-chain.ts'
import { defaultDataDir, releaseReferenceAddresses } from '../system/reference-leases.ts'
import { isWriterGone } from '../system/stamp.ts'
import { type NetworkFiles, networkFiles, requireState } from '../system/state.ts'
import { attachmentLock } from './attachment-lock.ts'
import type { CallContext } from './context.ts'
import { releaseWith } from './delegated-lease.ts'
import { delegateDel, detach, settleLeftovers } from './detach.ts'
import { delLoopback } from './loopback.ts'
import { isGuarded } from './lost-elements.ts'
import { recallOne } from './recall-links.ts'
import { removeWhenEmpty } from './remove-network.ts'

/**
 * Detaches the pod. Throws only a delegate's error, after all our own work is done, or CniError 11
 * when a live ADD of the same attachment is under way, another call keeps it waiting for too long, or not even what is
 * owed can be written down, 106 when a signal ends its wait for others: what is left is written down, and DEL is sent
 * again.
 */
export async function del(context: CallContext, call: Invocation, conf: DelConf): Promise<void> {
  if (conf.isLoopback) return await delLoopback(context, call)
  requireState(conf.name)
  const files = networkFiles(conf.name)
  const { meant, isCertain } = meantBy(conf, await recordsFor(context, call, conf))
  for (const stored of meant) {
    if (isInProgress(stored)) throw inProgress(call, stored.record.writer.pid)
    await detachOrOwe(context, files, stored.record)
  }
  if (meant.length === 0) await removeOthers(context, { call, conf })
  const recorded = meant.map(({ record }) => record.key.role)
  if (!isCertain) await removeUnrecorded(context, files, { call, conf, recorded })
  const release = conf.delegatedIpam === undefined ? undefined : releaseWith(context, call, conf.stdin)
  await settleLeftovers(context, files, release)
  await removeWhenEmpty(context, files)
  // The configuration may have changed since: the lease is with whoever gave it.
  const delegated = meant.find(({ record }) => record.delegatedIpam !== undefined)?.record.delegatedIpam
  const isChained = meant.length > 0 && meant.every(({ record }) => record.key.role === 'chained')
  const type = delegated ?? (isChained ? undefined : conf.delegatedIpam)
  if (type !== undefined) await delegateDel(context, call, { type, stdin: conf.stdin })
}

function keyOf(call: Invocation, conf: DelConf, role: Role): AttachmentKey {
  return { network: conf.name, containerId: call.containerId, ifName: call.ifName, role }
}

/** A delegated DEL is only ever about its own reservation. */
function rolesOf(conf: DelConf): readonly Role[] {
  return conf.role === 'ipam' ? ['ipam'] : ['chained', 'main']
}

/** The attachment's records. Another DEL that only has to give things back looks like an ADD, but for its lock: it is waited for. */
async function recordsFor(context: CallContext, call: Invocation, conf: DelConf): Promise<readonly StoredRecord[]> {
  const find = () => rolesOf(conf).flatMap((role) => findRecords(networkFiles(conf.name), keyOf(call, conf, role)))
  const records = find()
  const busy = records.filter(isInProgress)
  if (busy.length === 0) return records
  for (const { record } of busy) await waitForHolder(attachmentLock(context, record.key, 'delete the attachment'))
  return find()
}

function isInProgress({ record, isPending }: StoredRecord): boolean {
  return isPending && record.owed === undefined && !isWriterGone(record)
}

/**
 * Both plugins of a list get the same ids: where the configuration is the one a chained attachment
 * was made with, that one is meant and no other; a configuration nobody knows means all of them.
 */
function meantBy(
  conf: DelConf,
  records: readonly StoredRecord[],
): { readonly meant: readonly StoredRecord[]; readonly isCertain: boolean } {
  const digest = configDigest(conf.stdin)
  const exact = records.filter(({ record }) => record.configDigest === digest)
  return exact.length > 0 ? { meant: exact, isCertain: true } : { meant: records, isCertain: false }
}

async function detachOrOwe(context: CallContext, files: NetworkFiles, record: StoredRecord['record']): Promise<void> {
  try {
    const failures = await detach(context, files, record)
    for (const failure of failures) process.stderr.write(`trestle: DEL: owed: ${failure.message}\n`)
  } catch (cause) {
    if (cause instanceof CniError || !('errno' in (cause as object))) throw cause
    throw new CniError(
      CniCode.tryAgainLater,
      `cannot write down what is owed for ${record.key.ifName} of container ${record.key.containerId}`,
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

/**
 * State was lost: what can be told from the ids alone goes. Of a list, any part may have lost its record while the
 * other has one.
 */
async function removeUnrecorded(
  context: CallContext,
  files: NetworkFiles,
  asked: { call: Invocation; conf: DelConf; recorded: readonly Role[] },
): Promise<void> {
  const { call, conf, recorded } = asked
  for (const role of rolesOf(conf).filter((each) => !recorded.includes(each))) {
    const key = keyOf(call, conf, role)
    if (role === conf.role) await recallLost(context, { call, conf, key })
    // Nothing of it as a rule: the second DEL of containerd writes no record, and starts no process but for macspoofchk.
    const isLinked = role === 'main' && [hostLinkName(key), ifbName(key)].some(linkExists)
    const isThere = isLinked || (role === 'main' && guardsMacs(conf) && (await isGuarded(context, key)))
    if (!isThere && addressesOf(files, key).length === 0 && portsOf(key).length === 0) continue
    const createdAt = new Date().toISOString()
    const netns = { path: '', inode: 0 }
    const record = { format: 1, key, writer: context.stamp, netns, createdAt, configDigest: '' } as const
    // A record of it that came meanwhile is a new ADD's.
    if (claim(files, record)) await detachOrOwe(context, files, record)
  }
}

/** Where its link is there, or prevResult tells its addresses and it had host ports: else there is nothing to look for. */
async function recallLost(
  context: CallContext,
  { call, conf, key }: { call: Invocation; conf: DelConf; key: AttachmentKey },
): Promise<void> {
  const addresses = rememberedAddresses(call, conf)
  if (!linkExists(hostLinkName(key)) && addresses.length === 0) return
  await recallOne(context, key, addresses).catch((error: Error) => {
    process.stderr.write(`trestle: DEL: cannot tell what ${key.ifName} had: ${error.message}\n`)
  })
}

/** Whether pods of the network have elements that nothing but the name of their link finds: layer 2 reserves nothing. */
function guardsMacs({ stdin }: DelConf): boolean {
  try {
    return lookUp(asObject(JSON.parse(stdin)), 'macspoofchk') === true
  } catch {
    return false
  }
}

/** The pod's addresses by prevResult, where the runtime says host ports too. */
function rememberedAddresses({ ifName }: Invocation, { stdin, cniVersion }: DelConf): readonly string[] {
  try {
    const root = asObject(JSON.parse(stdin))
    if (mappingsOf(asObject(lookUp(root, 'runtimeConfig'))).length === 0) return []
    return podAddressesOf({ result: readPrevResult(lookUp(root, 'prevResult'), cniVersion), ifName })
  } catch {
    return []
  }
}

/** The reference chain made the attachment, before the node was switched. What fails keeps its reservation, for a later DEL. */
async function removeOthers(context: CallContext, { call, conf }: { call: Invocation; conf: DelConf }): Promise<void> {
  const key = keyOf(call, conf, conf.role)
  const dataDir = conf.dataDir ?? defaultDataDir
  // A chained part has none of the pod's addresses.
  if (conf.role === 'chained') return
  if (conf.role === 'ipam') return releaseReferenceAddresses(dataDir, conf.name, call)
  const found = findReference(key, conf, dataDir)
  if (found === undefined) return
  const openPod = call.netns === '' ? undefined : () => context.openNetns(call.netns)
  const failures = await removeReference(context.cleanup, found, openPod)
  for (const failure of failures)
    process.stderr.write(`trestle: DEL: left of the reference plugins: ${failure.message}\n`)
}

function inProgress(call: Invocation, pid: number): CniError {
  return new CniError(
    CniCode.tryAgainLater,
    `another call is working on ${call.ifName} of container ${call.containerId}`,
    {
      details: `process ${pid}; a runtime runs one call per container at a time`,
    },
  )
}
