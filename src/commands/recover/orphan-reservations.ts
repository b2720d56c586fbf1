// SPDX-License-Identifier: Apache-2.0
// Reservations that no attachment has, for `trestle gc` and an ADD that needs them.

import { lstatSync, rmSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { networkDirName } from '../../plan/model/names.ts'
import { type AttachmentRecord, sameKey } from '../../plan/model/record.ts'
import { youngestMs } from '../../plan/recovery/garbage.ts'
import {
  judgeReservation,
  type Reservation,
  type ReservationVerdict,
  recordReservations,
} from '../../plan/recovery/orphan-reservations.ts'
import { rediscoveredReservations } from '../../plan/recovery/rediscovery.ts'
import { chainedFiles, directoryNameOf, networkDirectories, networkFiles } from '../../system/files/state.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
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
import { type CallContext, contextOfLooks } from '../call/context.ts'
import type { Listed } from '../teardown/collect.ts'
import { isDead, reclaimReservations } from '../teardown/teardown.ts'
import { heal } from './heal.ts'
import { rediscover } from './rediscover.ts'

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
