// SPDX-License-Identifier: Apache-2.0
// Undoes one attachment from its record: links, rules, flows, what stays in a sandbox that lives on, and last
// its reservations. What fails is written into the record as pending cleanup.

import { bareAddress } from '../../cni/model/address.ts'
import { CniError } from '../../cni/model/error.ts'
import { CommandError } from '../../compile/command-error.ts'
import { specFromIds } from '../../plan/model/from-ids.ts'
import type { Op } from '../../plan/model/op.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import { ownRuleRemovals, podTeardownOps } from '../../plan/modes/attach.ts'
import { flowsOf, opsOf } from '../../plan/order/stage.ts'
import { endFlows, linksOf, teardownPlan } from '../../plan/order/teardown.ts'
import { isDiskRefusal } from '../../system/files/files.ts'
import type { NetworkFiles } from '../../system/files/state.ts'
import { deleteFlows } from '../../system/kernel/conntrack.ts'
import { executeAll } from '../../system/kernel/execute.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import { closeNetns, netnsState, type OpenNetns } from '../../system/kernel/netns.ts'
import { releaseAddresses } from '../../system/store/addresses.ts'
import { waitForHolder } from '../../system/store/lock.ts'
import { releasePorts } from '../../system/store/ports.ts'
import { forget, forgetFinished, writePending } from '../../system/store/records.ts'
import { removeUpstream } from '../../system/upstream/attachment.ts'
import { type CallContext, openIfThere } from '../call/context.ts'
import { machineLock } from '../call/machine-lock.ts'
import { unusedChains } from './condition-chains.ts'
import { removeOrphanElements } from './orphan-elements.ts'

/** Undoes and forgets the attachment, or writes down what is pending and returns the failures. Its lock is held (detach.ts). */
export async function teardownUnderLock(
  context: CallContext,
  files: NetworkFiles,
  found: AttachmentRecord,
): Promise<readonly Error[]> {
  // Without a spec, links are found by their names, and reservations by what they say themselves.
  const record = found.spec === undefined ? { ...found, spec: specFromIds(found.key), isLost: true as const } : found
  await leaveRebuilds(context, files, record)
  const failures = await teardownKernel(context, record)
  if (failures.length > 0) {
    const pendingCleanup = failures.map((failure) => failure.message)
    writePending(files, { ...record, writer: context.identity, pendingCleanup })
    forgetFinished(files, record.key)
    return failures
  }
  if (record.isLost && !(await removeOrphanElements(context, files, record.key))) return [elementsLeft(record)]
  const releasing = { ...(record.isLost ? reservationsAlone(record) : record), writer: context.identity }
  const ports = record.isLost ? undefined : (record.spec?.hostPorts?.ports ?? [])
  await deleteFlows(context.cleanup, flowsOf(endFlows(ports ?? [])))
  withdraw(files, releasing)
  await releasePorts(releasing, ports, context.whole)
  await releaseAddresses(files, releasing, context.whole)
  forget(files, record.key)
  return []
}

/**
 * Who rebuilds the rules of all pods reads the records under the machine's lock (plan/order/set-up.ts). From the mark on it
 * leaves this attachment out, and who has read before the mark is waited for: what is removed is not written once more,
 * even where that call fails or is killed. Throws CniError 11 when it takes too long, 106 when a signal ends the wait: the
 * mark stays, and a later call takes the rest away.
 */
async function leaveRebuilds(context: CallContext, files: NetworkFiles, record: AttachmentRecord): Promise<void> {
  if (record.isLost || record.spec === undefined) return
  if (record.pendingCleanup === undefined) {
    try {
      writePending(files, { ...record, writer: context.identity, pendingCleanup: ['its removal has not ended'] })
      forgetFinished(files, record.key)
    } catch {
      // A full disk must not keep links and rules: they go, and the record stays (del.ts, orPending).
    }
  }
  // Without rules, nobody writes any: `restore` only must not take a link that goes for a lost one.
  if (ownRuleRemovals(record.spec).length === 0) return
  const purpose = `remove the rules of ${record.key.ifName} of container ${record.key.containerId}`
  await waitForHolder({ ...machineLock(context, purpose), deadline: context.waits })
}

/**
 * From here on others may take its addresses and ports: a record that is left must not hold them. On a full disk there
 * is none from here on: a killed DEL is sent again, and finds what is reserved by what the reservations say themselves.
 */
function withdraw(files: NetworkFiles, record: AttachmentRecord): void {
  try {
    writePending(files, reservationsAlone(record))
    forgetFinished(files, record.key)
  } catch (error) {
    if (!isDiskRefusal(error)) throw error
    forget(files, record.key)
  }
}

function elementsLeft({ key }: AttachmentRecord): CniError {
  return new CniError('cleanup-incomplete', `rules of ${key.ifName} of container ${key.containerId} may be left`, {
    details: 'stderr says why; its reservations stay until a later call removes them',
  })
}

/** A record of reservations alone, as before anything was made. */
export function reservationsAlone({
  spec: _,
  network: __,
  pendingCleanup: ___,
  isLost: ____,
  ...intent
}: AttachmentRecord): AttachmentRecord {
  return intent
}

/** Undoes what the record's spec says, on the host and in a sandbox that lives on. Returns the failures; what is gone is none. */
export async function teardownKernel(context: CallContext, record: AttachmentRecord): Promise<readonly Error[]> {
  if (record.spec === undefined) return []
  const chains = unusedChains(record)
  const removal = { group: removalGroup(context), links: new Set(linksOf(record.spec).filter(linkExists)), chains }
  const netns = podToTearDown(context, record)
  const plan = teardownPlan(record.spec, { ...removal, hasPod: netns !== undefined })
  const inPod = netns === undefined ? [] : await teardownInPod(context, netns, opsOf(plan, 'pod'))
  const failures = [...inPod, ...(await executeAll({ run: context.cleanup }, opsOf(plan, 'host')))]
  // Who else had a chain may have left meanwhile, and seen us: whoever goes last sees nobody.
  const later = unusedChains(record).filter((op) => !chains.some((other) => other.why === op.why))
  failures.push(...(await executeAll({ run: context.cleanup }, later)))
  if (failures.length > 0 || record.adopted === undefined) return failures
  const addresses = record.spec.ips.map(({ address }) => bareAddress(address))
  return await removeUpstream(context.cleanup, { key: record.key, dataDir: record.adopted.dataDir, addresses })
}

/** The sandbox, where it lives on and has something of the attachment. */
function podToTearDown(context: CallContext, { spec, netns }: AttachmentRecord): OpenNetns | undefined {
  if (spec === undefined || podTeardownOps(spec).length === 0 || netnsState(netns) !== 'live') return undefined
  return openIfThere(context, netns.path)
}

/**
 * What stays in a namespace that outlives the attachment. Where the namespace is gone, so is that; what the kernel
 * refuses there is the pod's own doing since, told and not pending.
 */
async function teardownInPod(context: CallContext, netns: OpenNetns, ops: readonly Op[]): Promise<readonly Error[]> {
  try {
    const failures = await executeAll({ run: context.cleanup, netnsFd: netns.fd }, ops)
    const refused = failures.filter((failure) => failure instanceof CommandError)
    for (const each of refused) process.stderr.write(`trestle: left in the sandbox: ${each.message}\n`)
    return failures.filter((failure) => !(failure instanceof CommandError))
  } finally {
    closeNetns(netns)
  }
}

/** A link group that is this process's alone while it lives: pids are below 2^22 (PID_MAX_LIMIT). */
function removalGroup(context: CallContext): number {
  return 0x40000000 + context.identity.pid
}
