// SPDX-License-Identifier: Apache-2.0
// Removes one attachment: its part in the pod, its links and elements, its reservations, its record. DEL, the undo of a
// failed ADD, what a killed call left, a dead holder of an address, GC and `trestle gc` are all this function.

import { setTimeout as sleep } from 'node:timers/promises'
import { bareAddress } from '../cni/addresses.ts'
import { CniError, Code, toCniError } from '../cni/errors.ts'
import { linkGroup, ownElements, ownLinks, undoOf } from '../drivers/attachment.ts'
import { homecomingOf } from '../drivers/host-device.ts'
import { shortId } from '../drivers/names.ts'
import { type AttachmentId, type Spec, sameId } from '../drivers/spec.ts'
import { flushFlowsAfter } from '../features/flows.ts'
import { delegate, stdinForDel } from '../ipam/delegate.ts'
import { lookAtHost, lookAtPod } from '../kernel/look.ts'
import { closeNetns, netnsState, type OpenNetns } from '../kernel/netns.ts'
import { elementKey } from '../kernel/nft-table.ts'
import { hasEnded, ownIdentity } from '../process/clock.ts'
import { endKilledCalls } from '../process/killed-calls.ts'
import type { Machine } from '../process/machine.ts'
import { stepsToRemove } from '../process/order.ts'
import { isDiskRefusal, isTaken, removeFile } from '../state/files.ts'
import {
  addressesDirectory,
  attachmentLockFile,
  finishedFile,
  machineLockFile,
  networkDirectory,
  networkNames,
} from '../state/layout.ts'
import { type LockRequest, waitForLock, withLock } from '../state/lock.ts'
import {
  type AttachmentRecord,
  allRecords,
  describeRecord,
  findRecord,
  forgetRecord,
  isSameRecord,
  writePending,
} from '../state/records.ts'
import { releaseFound, releaseNamed } from '../state/reservations.ts'
import type { Context } from './context.ts'
import { removeIfEmpty } from './remove-network.ts'
import { specWithoutRecord, type UnrecordedPod } from './unrecorded.ts'

/**
 * Removes the attachment of a record. Returns what failed: that stays in the record, with its address and ports withheld,
 * for a later call. `endsEarly`: answer before tools have ended. Throws CniError 11 where even that cannot be written down.
 */
export async function detach(
  record: AttachmentRecord,
  context: Context,
  endsEarly = false,
): Promise<readonly CniError[]> {
  return await withLock(lockOf(record.id, context), async () => {
    try {
      return await detachLocked(record, context, endsEarly)
    } catch (error) {
      throw isDiskRefusal(error) ? notRecorded(record, error as Error) : error
    }
  })
}

async function detachLocked(
  record: AttachmentRecord,
  context: Context,
  endsEarly: boolean,
): Promise<readonly CniError[]> {
  const { id } = record
  // Whoever had the lock may have removed it, and another attachment may have the ids by now.
  const present = findRecord(id)
  if (present === undefined || !isSameRecord(present, record)) return []
  if (hasEnded(present.writer, Date.parse(present.createdAt)))
    await endKilledCalls(present.writer, context.deadline.endsAtMs)
  markLeaving(present)
  const spec = present.spec ?? (await specWithoutRecord(id, context))
  const errors = await removeFromKernel(spec, present, context, endsEarly)
  // A lease that is free while its pod may have the address still would be given to the next one.
  if (errors.length === 0) errors.push(...(await releaseLease(present, context)))
  if (errors.length === 0) {
    // Without a spec the call ended between its reservations and the spec: only the files say which they are.
    if (present.spec === undefined || present.delegated !== undefined) releaseFound(id)
    releaseReserved(spec)
  }
  if (spec.network?.removeWhenEmpty) errors.push(...(await removeIfEmpty(spec.network, id, context)))
  // Last of all: where the call is killed before, a later one finds the record and does the rest.
  if (errors.length === 0) forgetRecord(id)
  else noteLeft(present, errors)
  return errors
}

function releaseReserved({ id, addresses, hostPorts }: Spec): void {
  const bare = addresses.map(({ address }) => bareAddress(address))
  releaseNamed(id, bare, hostPorts?.ports ?? [])
}

/** What there is of an attachment without a record, by its ids, by the comments of elements, and by reservations. */
export async function detachWithoutRecord(
  id: AttachmentId,
  context: Context,
  pod?: UnrecordedPod,
): Promise<readonly CniError[]> {
  const remove = async () => {
    const netns = pod && context.machine.openNetnsIfThere(pod.netns)
    try {
      const spec = await specWithoutRecord(id, context, pod && { ...pod, netns })
      const identity = netns?.identity ?? { path: '', inode: 0 }
      const record = { format: 0, id, writer: ownIdentity(), netns: identity, createdAt: '' }
      const errors = await removeFromKernel(spec, record, context, false)
      if (errors.length === 0) {
        releaseFound(id)
        releaseReserved(spec)
      }
      return errors
    } catch (error) {
      return [toCniError(error)]
    } finally {
      closeNetns(netns)
    }
  }
  // Nobody is at work on a network without a directory: a DEL of what never was leaves no lock behind.
  return isTaken(networkDirectory(id.network)) ? await withLock(lockOf(id, context), remove) : await remove()
}

function lockOf(id: AttachmentId, { deadline }: Context): LockRequest {
  const purpose = `remove ${id.ifName} of container ${id.containerId}`
  return { file: attachmentLockFile(id), purpose, deadline, isDispensable: true }
}

/** A set-up that runs beside us leaves a marked record out: it would add the elements again. */
function markLeaving(record: AttachmentRecord): void {
  try {
    writePending({ ...record, isLeaving: true, writer: ownIdentity() })
    removeFile(finishedFile(record.id))
  } catch (error) {
    // On a full disk names can be unlinked, but nothing is written.
    if (!isDiskRefusal(error)) throw error
  }
}

function noteLeft(record: AttachmentRecord, errors: readonly CniError[]): void {
  const left = errors.map(({ message }) => message)
  try {
    writePending({ ...record, isLeaving: true, writer: ownIdentity(), left })
  } catch (cause) {
    throw notRecorded(record, cause as Error, left)
  }
}

function notRecorded(record: AttachmentRecord, cause: Error, left: readonly string[] = []): CniError {
  const message = `what is left of ${describeRecord(record)} cannot be written down: ${cause.message}`
  return new CniError(Code.tryAgainLater, 'cleanup-not-recorded', message, { details: left.join('\n'), cause })
}

async function removeFromKernel(
  spec: Spec,
  record: AttachmentRecord,
  context: Context,
  endsEarly: boolean,
): Promise<CniError[]> {
  const { machine, deadline } = context
  const errors: CniError[] = []
  const hasElements = ownElements(spec).length > 0
  // A set-up that read the records before ours was marked would add the elements again.
  if (hasElements) await waitForLock({ file: machineLockFile(), purpose: 'remove rules', deadline })
  const netns = netnsState(record.netns) === 'live' ? machine.openNetnsIfThere(record.netns.path) : undefined
  try {
    errors.push(...(await bringDeviceHome(spec, netns, context)))
    const present = withoutLostLink(withoutOthersElements(spec), machine)
    const links = ownLinks(present).filter(machine.linkExists)
    const ops = undoOf(present, links, linkGroup()).filter((op) => op.place === 'host' || netns !== undefined)
    const { errors: refused } = await machine.run(stepsToRemove(ops), { netns, goesOn: true, endsEarly })
    errors.push(...refused)
    await flushFlowsAfter(machine, spec.hostPorts?.ports ?? [])
  } finally {
    closeNetns(netns)
  }
  return errors
}

/** A chained host link of the same name may be another pod's by now: its queues stay. */
function withoutLostLink(spec: Spec, machine: Machine): Spec {
  const { hostLink, hostIndex } = spec.chained ?? {}
  const isLost = hostLink !== undefined && hostIndex !== undefined && machine.linkIndex(hostLink) !== hostIndex
  if (!isLost) return spec
  const { bandwidth, chained: _, ...rest } = spec
  return {
    ...rest,
    chained: {},
    ...(bandwidth?.egress ? { bandwidth: { link: '', mtu: 0, egress: bandwidth.egress } } : {}),
  }
}

/** An address may be another pod's before the DEL of its first one: elements that another record needs stay. */
function withoutOthersElements(spec: Spec): Spec {
  const own = ownElements(spec)
  if (own.length === 0 || !mayBeShared(spec)) return spec
  const others = allRecords().filter(({ id, isLeaving }) => !isLeaving && !sameId(id, spec.id))
  const needed = new Set(others.flatMap(({ spec: other }) => (other ? ownElements(other).map(elementKey) : [])))
  return { ...spec, givenElements: own.filter((element) => !needed.has(elementKey(element))) }
}

/** An address of a pool belongs to one attachment, unless another network has the same range. Reads no record. */
function mayBeShared({ id, mode, network, addresses }: Spec): boolean {
  if (mode === 'chained' || network?.allowOverlap) return true
  const others = networkNames().filter((name) => name !== shortId(id.network))
  return others.some((name) =>
    addresses.some(({ address }) => isTaken(`${addressesDirectory(name)}/${bareAddress(address)}`)),
  )
}

/** DEL moves a host device back to the host's namespace and restores its name. */
async function bringDeviceHome(
  spec: Spec,
  netns: OpenNetns | undefined,
  { machine }: Context,
): Promise<readonly CniError[]> {
  const { device } = spec
  if (device === undefined || device.driver !== undefined) return []
  const look = async () => {
    const [host, inPod] = await Promise.all([lookAtHost(machine, 'all'), netns && lookAtPod(machine, netns)])
    return homecomingOf({ ...spec, device }, host.links, inPod?.pod.links)
  }
  let home = await look()
  // The kernel brings a device of the machine home when nothing uses the namespace any more.
  for (const untilMs = Date.now() + 2000; home.isAwaited && Date.now() < untilMs; home = await look()) await sleep(50)
  const { ops, missing, isStuck } = home
  if (isStuck && missing !== undefined) return [new CniError(Code.cleanupIncomplete, 'cleanup-incomplete', missing)]
  if (missing !== undefined && device.mac !== '') process.stderr.write(`trestle: ${missing}\n`)
  return (await machine.run(stepsToRemove(ops), { netns, goesOn: true })).errors
}

/** The delegated plugin's DEL, with the configuration of its ADD. It comes behind all of our own. */
async function releaseLease(
  { id, netns, delegated }: AttachmentRecord,
  { machine, path, stdin: present }: Context,
): Promise<readonly CniError[]> {
  if (delegated === undefined) return []
  const stdin = stdinForDel(delegated.stdin, present)
  try {
    await delegate(machine, { type: delegated.type, verb: 'DEL', path, stdin, of: { id, netns: netns.path } })
    return []
  } catch (error) {
    return [toCniError(error)]
  }
}
