// SPDX-License-Identifier: Apache-2.0
// What no record and no live pod has: reservations, for `trestle gc` and an ADD that needs them; links and elements of
// ours in the kernel, for GC and `trestle gc`.

import { existsSync, lstatSync, rmSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { includes, parseAddress, parseCidr } from '../../cni/address.ts'
import { toCniError } from '../../cni/error.ts'
import type { NetConf } from '../../config/net-conf.ts'
import { networkDirName } from '../../model/names.ts'
import { elementOps, type Op } from '../../model/op.ts'
import { type AttachmentRecord, sameKey } from '../../model/record.ts'
import { orphanElements } from '../../plan/recovery/orphan-elements.ts'
import {
  hasPodWithoutRecord,
  judgeOrphan,
  judgeReservation,
  type Orphan,
  type OrphanVerdict,
  orphansOf,
  type Reservation,
  type ReservationVerdict,
  recordReservations,
  rediscoveredReservations,
  youngestMs,
} from '../../plan/recovery/verdicts.ts'
import { namesIn } from '../../system/files/files.ts'
import { chainedFiles, directoryNameOf, networkDirectories, networkFiles } from '../../system/files/state.ts'
import { executeAll } from '../../system/kernel/execute.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { observeHost, observeTables } from '../../system/kernel/observe.ts'
import { isOlder } from '../../system/process/process-identity.ts'
import { withLock } from '../../system/store/lock.ts'
import {
  allRecords,
  findRecords,
  knownNetwork,
  type StoredRecord,
  unreadableRoles,
} from '../../system/store/records.ts'
import { reservationFile, reservationHolder, reservationLock, reservationsIn } from '../../system/store/reservations.ts'
import { withoutSpec } from '../call/attachment-records.ts'
import { type CallContext, contextOfLooks } from '../call/context.ts'
import { isDead, reclaimReservations, teardownWithoutRecord } from '../teardown/attachments.ts'
import type { Listed } from '../teardown/collect.ts'
import { heal } from './reconcile.ts'
import { rediscover } from './recover.ts'

const lockWaitMs = 5000

/** A reservation where it is. `inode`: another one under the name is another call's. */
interface Kept {
  readonly reservation: Reservation
  readonly file: string
  readonly inode: number | undefined
  readonly holder: AttachmentRecord | undefined
}

/**
 * Judges every reservation of every network and every host port. One process, and more for each pod without a record.
 * Reservations are read before the records: an ADD writes its record first. Those that a DEL gave back meanwhile are
 * left out. `main`: the directory name of a network that an ADD makes a link of ours for.
 */
export async function judgeReservations(
  context: CallContext,
  listed: Listed,
  main?: string,
): Promise<readonly ReservationVerdict[]> {
  const reserved = kept()
  const { found, unsure } = await rediscover(context, {})
  const stored = allRecords()
  const claimed = new Set(stored.flatMap(({ record }) => recordReservations(record)).map(textOf))
  const lost = new Set(unsure.map(({ network }) => networkDirName(network)))
  const alive = new Set(found.flatMap(rediscoveredReservations).map(textOf))
  const isShared = stored.some(({ record }) => hostStateOf(record.writer, context.identity) === 'elsewhere')
  const hasLostPorts = lost.size > 0 || networkDirectories().some((files) => isThere(chainedFiles(files).network))
  const isStill = ({ file, inode }: Kept) => inodeOf(file) === inode
  return reserved.filter(isStill).map(({ reservation, file, holder }) => {
    const { network } = reservation
    return judgeReservation({
      reservation,
      holder,
      isClaimed: claimed.has(textOf(reservation)),
      holderHas: whatIsOf(holder, stored),
      isHolderDead: holder !== undefined && isDead({ file, isPending: false, record: holder }, context),
      isListed: holder && listed?.has(holder.key.containerId),
      isOld: isOldFile(context, file, holder),
      // What cannot be read may be of a pod of the other host, whose links are not seen from here.
      mayBeOfUnknownPod:
        isShared ||
        alive.has(textOf(reservation)) ||
        (network === undefined ? hasLostPorts : lost.has(network) || isForOthers(network, stored, main)),
    })
  })
}

/** Gives back the orphans among them. Returns what failed. */
export async function collectReservations(
  context: CallContext,
  verdicts: readonly ReservationVerdict[],
): Promise<readonly string[]> {
  const failures: string[] = []
  for (const { reservation, holder } of verdicts.filter(({ verdict }) => verdict === 'collect')) {
    try {
      const isLost = holder !== undefined && !allRecords().some(({ record }) => sameKey(record.key, holder.key))
      if (isLost) await reclaimReservations(context, networkFiles(holder.key.network), holder)
      else await drop(context, { reservation, holder })
    } catch (error) {
      failures.push((error as Error).message)
    }
  }
  return failures
}

/** `network`: whose addresses; absent: the node's host ports. `isMain`: its pods have links of ours. */
export interface Scope {
  readonly network?: string
  readonly isMain?: boolean
}

/**
 * Of an ADD that finds its pool full, or its host port taken by what cannot be read: gives back the orphans of the
 * scope, as `trestle gc` would. What live pods without a record have is theirs again before that. Nothing is looked at
 * where every reservation has its record. What fails is reported on stderr.
 */
export async function reclaimOrphans(context: CallContext, { network, isMain }: Scope): Promise<void> {
  const directory = network === undefined ? undefined : networkDirName(network)
  if (!reservationsIn(directory).some(isWithoutRecord)) return
  try {
    await heal(contextOfLooks(context), {})
    const verdicts = await judgeReservations(contextOfLooks(context), undefined, isMain ? directory : undefined)
    const meant = verdicts.filter(({ reservation }) => reservation.network === directory)
    for (const failure of await collectReservations(context, meant))
      process.stderr.write(`trestle: an orphan stays: ${failure}\n`)
  } catch (error) {
    process.stderr.write(`trestle: cannot tell orphans from what is in use: ${(error as Error).message}\n`)
  }
}

function isWithoutRecord(reservation: Reservation): boolean {
  const holder = reservationHolder(reservation)
  return holder === undefined || findRecords(networkFiles(holder.key.network), holder.key).length === 0
}

/** One that changed hands since it was judged is left alone: that of an ADD is in no record at first. */
async function drop(
  { identity }: CallContext,
  judged: Pick<ReservationVerdict, 'reservation' | 'holder'>,
): Promise<void> {
  const { reservation, holder } = judged
  const lock = {
    file: reservationLock(reservation),
    purpose: 'collect a reservation',
    owner: identity,
    waitMs: lockWaitMs,
    isDispensable: true,
  } as const
  await withLock(lock, () => {
    const claimed = allRecords()
      .flatMap(({ record }) => recordReservations(record))
      .map(textOf)
    const isSame = isDeepStrictEqual(ownHolder(reservation), holder)
    if (isSame && !claimed.includes(textOf(reservation)))
      rmSync(reservationFile(reservation), { force: true, recursive: true })
  })
}

/** Addresses of every network, and host ports. */
function kept(): readonly Kept[] {
  const networks = [...networkDirectories().map(directoryNameOf), undefined]
  return networks.flatMap(reservationsIn).map((reservation) => {
    const file = reservationFile(reservation)
    return { reservation, file, inode: inodeOf(file), holder: ownHolder(reservation) }
  })
}

function inodeOf(file: string): number | undefined {
  return lstatSync(file, { throwIfNoEntry: false })?.ino
}

/** The intent record of another network is nobody's here. */
function ownHolder(reservation: Reservation): AttachmentRecord | undefined {
  const holder = reservationHolder(reservation)
  const isOther = reservation.network !== undefined && networkDirName(holder?.key.network ?? '') !== reservation.network
  return isOther ? undefined : holder
}

function whatIsOf(holder: AttachmentRecord | undefined, stored: readonly StoredRecord[]) {
  const records = stored.filter(({ record }) => holder !== undefined && sameKey(record.key, holder.key))
  if (records.length === 0) return 'nothing'
  return records.some(({ isPending, record }) => isPending || record.spec === undefined) ? 'pending' : 'others'
}

/**
 * A network that serves other plugins, whose links are not ours, or of which nothing is known any more. `main`: the one
 * that an ADD makes a link of ours for. Records that cannot be read are known by the names of their files.
 */
function isForOthers(network: string, stored: readonly StoredRecord[], main: string | undefined): boolean {
  const isServing = ({ record: { key } }: StoredRecord) =>
    key.role === 'ipam' && networkDirName(key.network) === network
  const files = networkFiles(network)
  const unreadable = unreadableRoles(files)
  if (stored.some(isServing) || unreadable.includes('ipam')) return true
  return main !== network && !unreadable.includes('main') && knownNetwork(files) === undefined
}

/**
 * Whether a reservation is old enough for gc: by the holder's identity, else by the time of the file, since whoever
 * damaged it did that later.
 */
export function isOldFile({ identity }: CallContext, file: string, holder: AttachmentRecord | undefined): boolean {
  const writtenMs = lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Number.NaN
  if (holder === undefined) return Math.abs(Date.now() - writtenMs) > youngestMs
  return (
    hostStateOf(holder.writer, identity) === 'ended' || isOlder(holder.writer, Date.parse(holder.createdAt), youngestMs)
  )
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

function textOf({ network, name }: Reservation): string {
  return `${network ?? ''} ${name}`
}

/** Judges everything of ours that no record names. Three processes, six where there is any. */
export async function judgeOrphans(context: CallContext, listed: Listed): Promise<readonly OrphanVerdict[]> {
  const { links, orphans } = await findOrphans(context)
  const networks = networkDirectories()
  const isChained = networks.some((files) => existsSync(chainedFiles(files).network))
  // Where all state was lost, too, a chained pod has no link of ours that would tell of it.
  const mayBeOfUnknownPod = hasPodWithoutRecord(orphans) || isChained || networks.length === 0
  return orphans.map((orphan) =>
    judgeOrphan(orphan, { links, isListed: orphan.key && listed?.has(orphan.key.containerId), mayBeOfUnknownPod }),
  )
}

/** Removes those that are to be collected, and are orphans still. Returns what failed. */
export async function collectOrphans(
  context: CallContext,
  verdicts: readonly OrphanVerdict[],
): Promise<readonly string[]> {
  const judged = verdicts.filter(({ verdict }) => verdict === 'collect').map(({ orphan }) => orphan)
  if (judged.length === 0) return []
  const { orphans } = await findOrphans(context)
  const names = new Set(orphans.map(({ name }) => name))
  const failures = await remove(
    context,
    judged.filter(({ name }) => names.has(name)),
  )
  return failures.map(({ message }) => message)
}

/**
 * Removes a network's orphans that `isListed` does not know, for GC; of its elements those of its ranges, and of links
 * that are gone, while no pod may have lost its record. Returns what failed.
 */
export async function removeUnlisted(
  context: CallContext,
  conf: NetConf,
  isListed: (id: { containerId: string; ifName: string }) => boolean,
): Promise<readonly Error[]> {
  try {
    const { orphans } = await findOrphans(context)
    const orphaned = orphans.filter(({ key }) => key?.network === conf.name && !isListed(key))
    const mayBeOfUnknownPod = hasPodWithoutRecord(orphans.filter((orphan) => !orphaned.includes(orphan)))
    const elements = orphans.filter(({ kind, name }) => kind === 'elements' && isOwn(conf, name))
    return await remove(context, [...orphaned, ...(mayBeOfUnknownPod ? [] : elements)])
  } catch (error) {
    return [toCniError(error)]
  }
}

/** A name that is no address is a link's that is gone: nobody's. */
function isOwn({ ipam }: NetConf, name: string): boolean {
  const address = parseAddress(name)
  if (address === undefined) return true
  const subnets = ipam.kind === 'pool' ? ipam.rangeSets.flat().flatMap(({ subnet }) => parseCidr(subnet) ?? []) : []
  return subnets.some((subnet) => includes(subnet, address))
}

/**
 * Looks once more where there are any: a DEL beside us forgets its record between our look at the links and that at the
 * records.
 */
async function findOrphans(context: CallContext) {
  const first = await lookForOrphans(context)
  if (first.orphans.length === 0) return first
  const { links, orphans } = await lookForOrphans(context)
  return { links, orphans: orphans.filter(({ name }) => first.orphans.some((each) => each.name === name)) }
}

async function lookForOrphans(context: CallContext) {
  const [{ links }, table] = await Promise.all([observeHost(context.run), observeTables(context.cleanup)])
  const records = allRecords().map(({ record }) => record)
  const reserved = new Set(networkDirectories().flatMap(({ addresses }) => namesIn(addresses)))
  return { links, orphans: orphansOf({ links, table, records, reserved }) }
}

async function remove(context: CallContext, orphans: readonly Orphan[]): Promise<readonly Error[]> {
  const failures: Error[] = []
  for (const orphan of orphans) failures.push(...(await removeOne(context, orphan)))
  return failures
}

/** A main attachment goes as by DEL of a lost record: what is reserved for it goes, too. */
async function removeOne(context: CallContext, { kind, name, key }: Orphan): Promise<readonly Error[]> {
  if (kind === 'link' && key?.role === 'main') {
    return await teardownWithoutRecord(context, networkFiles(key.network), withoutSpec(context, key))
  }
  if (kind === 'link') {
    return await runAll(context, [{ in: 'host', kind: 'link.del', dev: name, why: `remove the orphan ${name}` }])
  }
  const isAddress = parseAddress(name) !== undefined
  const owner = { portNames: [], addresses: isAddress ? [name] : [], link: isAddress ? '' : name }
  return await runAll(context, elementOps(orphanElements(await observeTables(context.cleanup), owner), 'nft.del'))
}

async function runAll(context: CallContext, ops: readonly Op[]): Promise<readonly Error[]> {
  return await executeAll({ run: context.cleanup }, ops)
}
