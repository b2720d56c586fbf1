// SPDX-License-Identifier: Apache-2.0
// DEL: from container id, interface name and our record alone. It comes twice per pod, with and
// without a namespace, after changed configurations and lost state; it succeeds when nothing of the
// attachment is left (contract §3).

import { CniCode, CniError } from '../cni/error.ts'
import type { Invocation } from '../cni/invocation.ts'
import type { DelConf, Role } from '../cni/net-conf.ts'
import { detachOps } from '../plan/attach.ts'
import type { AttachmentKey } from '../plan/attachment.ts'
import { configDigest } from '../plan/config-digest.ts'
import { hostLinkName, ifbName } from '../plan/names.ts'
import { mayBeUnrecorded, releaseAddresses } from '../system/addresses.ts'
import { executeAll } from '../system/execute.ts'
import { linkExists } from '../system/kernel-files.ts'
import { releasePorts } from '../system/ports.ts'
import { findRecords, type StoredRecord } from '../system/records.ts'
import { findReference, removeReference } from '../system/reference-chain.ts'
import { defaultDataDir, releaseReferenceAddresses } from '../system/reference-leases.ts'
import { hasEnded } from '../system/stamp.ts'
import { type NetworkFiles, networkFiles, requireState } from '../system/state.ts'
import type { CallContext } from './context.ts'
import { delegateDel, detach, removalGroup, settleLeftovers } from './detach.ts'
import { delLoopback } from './loopback.ts'
import { removeLostElements } from './lost-elements.ts'
import { removeWhenEmpty } from './remove-network.ts'

/**
 * Detaches the pod. Throws only a delegate's error, after all our own work is done, or CniError 11
 * when a live ADD of the same attachment is under way or not even what is owed can be written down.
 */
export async function del(context: CallContext, call: Invocation, conf: DelConf): Promise<void> {
  if (conf.isLoopback) return await delLoopback(context, call)
  requireState()
  const files = networkFiles(conf.name)
  const records = rolesOf(conf).flatMap((role) => findRecords(files, keyOf(call, conf, role)))
  const meant = meantBy(conf, records)
  for (const { record, isPending } of meant) {
    if (isPending && record.owed === undefined && !hasEnded(record.writer)) throw inProgress(call, record.writer.pid)
    await detachOrOwe(context, files, record)
  }
  if (meant.length === 0) await removeUnrecorded(context, files, { call, conf })
  await settleLeftovers(context, files)
  await removeWhenEmpty(context, files)
  if (conf.delegatedIpam !== undefined)
    await delegateDel(context, call, { type: conf.delegatedIpam, stdin: conf.stdin })
}

function keyOf(call: Invocation, conf: DelConf, role: Role): AttachmentKey {
  return { network: conf.name, containerId: call.containerId, ifName: call.ifName, role }
}

/** A delegated DEL is only ever about its own reservation. */
function rolesOf(conf: DelConf): readonly Role[] {
  return conf.role === 'ipam' ? ['ipam'] : ['chained', 'main']
}

/**
 * Both plugins of a list get the same ids: where the configuration is the one a chained attachment
 * was made with, that one is meant and no other; a configuration nobody knows means all of them.
 */
function meantBy(conf: DelConf, records: readonly StoredRecord[]): readonly StoredRecord[] {
  const digest = configDigest(conf.stdin)
  const exact = records.filter(({ record }) => record.configDigest === digest)
  return exact.length > 0 ? exact : records
}

async function detachOrOwe(context: CallContext, files: NetworkFiles, record: StoredRecord['record']): Promise<void> {
  try {
    const failures = await detach(context, files, record)
    for (const failure of failures) process.stderr.write(`trestle: DEL: owed: ${failure.message}\n`)
  } catch (cause) {
    if (cause instanceof CniError) throw cause
    throw new CniError(
      CniCode.tryAgainLater,
      `cannot write down what is owed for ${record.key.ifName} of container ${record.key.containerId}`,
      {
        details: `${(cause as Error).message}; make the state directory writable, DEL is sent again`,
        cause,
      },
    )
  }
}

/** State was lost, or another plugin made the attachment: what can be told from the ids alone goes. */
async function removeUnrecorded(
  context: CallContext,
  files: NetworkFiles,
  asked: { call: Invocation; conf: DelConf },
): Promise<void> {
  const { call, conf } = asked
  const key = keyOf(call, conf, conf.role)
  await removeOthers(context, asked, key)
  if (mayBeUnrecorded(files)) await releaseClaimed(context, files, key)
  const name = hostLinkName(key)
  const ifb = ifbName(key)
  if (conf.role === 'ipam' || ![name, ifb].some(linkExists)) return
  const host = { name, mac: '' }
  const bare = {
    key,
    mode: 'bridge',
    mtu: 0,
    host,
    ips: [],
    routes: [],
    defaultRoutes: [],
    podLinkDown: true,
    dad: false,
    selfHairpin: false,
    isPool: false,
    cooldownS: 0,
    bandwidth: { link: name, mtu: 0, egress: { rateBits: 0, burstBytes: 0, ifb, ifbMac: '' } },
  } as const
  const failures = await executeAll({ run: context.cleanup }, detachOps(bare, removalGroup(context)))
  if (failures[0] !== undefined)
    throw new CniError(CniCode.cleanupIncomplete, failures[0].message, { details: `state: ${files.directory}` })
}

/** The reference chain made the attachment, before the node was switched. What fails keeps its reservation, for a later DEL. */
async function removeOthers(
  context: CallContext,
  { call, conf }: { call: Invocation; conf: DelConf },
  key: AttachmentKey,
): Promise<void> {
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

/** Reservations are links to the claim, so they still say whose they are. */
async function releaseClaimed(context: CallContext, files: NetworkFiles, key: AttachmentKey): Promise<void> {
  const claim = {
    format: 1,
    key,
    writer: context.stamp,
    netns: { path: '', inode: 0 },
    createdAt: '',
    configDigest: '',
  } as const
  if (!(await removeLostElements(context, files, key))) return
  await releasePorts(claim, undefined)
  await releaseAddresses(files, claim)
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
