// SPDX-License-Identifier: Apache-2.0
// gc of reservations that no attachment accounts for, and of what stands where a directory of state belongs.

import { lstatSync, rmSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { networkDirName } from '../../plan/model/names.ts'
import { type AttachmentRecord, sameKey } from '../../plan/model/record.ts'
import { youngestMs } from '../../plan/recovery/garbage.ts'
import { rediscoveredReservations } from '../../plan/recovery/rediscovery.ts'
import { judgeStray, type Reservation, recordReservations, type StrayVerdict } from '../../plan/recovery/strays.ts'
import { namesIn } from '../../system/files/files.ts'
import {
  chainedFiles,
  type NetworkFiles,
  networkDirectories,
  networkFiles,
  setAside,
  stateRoot,
} from '../../system/files/state.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { isOlder } from '../../system/process/stamp.ts'
import { holderOf } from '../../system/store/addresses.ts'
import { withLock } from '../../system/store/lock.ts'
import { portHolder } from '../../system/store/ports.ts'
import { allRecords, knownNetwork, type StoredRecord, unreadableRoles } from '../../system/store/records.ts'
import { portsDirectory, reservationFile, reservationLock } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'
import type { Listed } from '../teardown/collect.ts'
import { isDead, reclaimClaim } from '../teardown/detach.ts'
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
 * Judges every reservation of every network and every host port. One process, and more for each pod without a record. Reservations are read before the records:
 * an ADD writes its record first. Those that a DEL gave back meanwhile are left out. `main`: the directory name of a
 * network that an ADD makes a link of ours for.
 */
export async function judgeStrays(
  context: CallContext,
  listed: Listed,
  main?: string,
): Promise<readonly StrayVerdict[]> {
  const reserved = kept()
  const { found, unsure } = await rediscover(context, {})
  const stored = allRecords()
  const claimed = new Set(stored.flatMap(({ record }) => recordReservations(record)).map(textOf))
  const lost = new Set(unsure.map(({ network }) => networkDirName(network)))
  const alive = new Set(found.flatMap(rediscoveredReservations).map(textOf))
  const isShared = stored.some(({ record }) => hostStateOf(record.writer, context.stamp) === 'elsewhere')
  const hasLostPorts = lost.size > 0 || networkDirectories().some((files) => isThere(chainedFiles(files).network))
  const isStill = ({ file, inode }: Kept) => inodeOf(file) === inode
  return reserved.filter(isStill).map(({ reservation, file, holder }) => {
    const { network } = reservation
    return judgeStray({
      reservation,
      holder,
      isClaimed: claimed.has(textOf(reservation)),
      holderHas: whatIsOf(holder, stored),
      isHolderDead: holder !== undefined && isDead({ file, isPending: false, record: holder }, context),
      isListed: holder && listed?.has(holder.key.containerId),
      isOld: isOldFile(context, file, holder),
      // What cannot be read may be of a pod of the other host, whose links are not seen from here.
      mayBeUnrecorded:
        isShared ||
        alive.has(textOf(reservation)) ||
        (network === undefined ? hasLostPorts : lost.has(network) || isForOthers(network, stored, main)),
    })
  })
}

/** Gives back what is judged stray. Returns what failed. */
export async function collectStrays(
  context: CallContext,
  verdicts: readonly StrayVerdict[],
): Promise<readonly string[]> {
  const failures: string[] = []
  for (const { reservation, holder } of verdicts.filter(({ verdict }) => verdict === 'collect')) {
    try {
      const isLost = holder !== undefined && !allRecords().some(({ record }) => sameKey(record.key, holder.key))
      if (isLost) await reclaimClaim(context, networkFiles(holder.key.network), holder)
      else await drop(context, { reservation, holder })
    } catch (error) {
      failures.push((error as Error).message)
    }
  }
  return failures
}

/** Sets aside what stands where a directory of state belongs: every call would stumble over it. Returns the paths. */
export function misplaced(): readonly string[] {
  const ofNetworks = namesIn(`${stateRoot()}/networks`).flatMap((name) => {
    const files = networkFiles(name)
    return [files.directory, files.locks, files.pending, files.attachments, files.addresses, files.cooling]
  })
  return [`${stateRoot()}/networks`, portsDirectory(), ...ofNetworks].filter(isNoDirectory)
}

/** Moves them out of the way. */
export function setAsideMisplaced(paths: readonly string[]): void {
  for (const path of paths) setAside(path)
}

/** One that changed hands since it was judged is left alone: that of an ADD is in no record at first. */
async function drop({ stamp }: CallContext, judged: Pick<StrayVerdict, 'reservation' | 'holder'>): Promise<void> {
  const { reservation, holder } = judged
  const lock = {
    file: reservationLock(reservation),
    purpose: 'collect a reservation',
    owner: stamp,
    waitMs: lockWaitMs,
    isDispensable: true,
  } as const
  await withLock(lock, () => {
    const claimed = allRecords()
      .flatMap(({ record }) => recordReservations(record))
      .map(textOf)
    const isSame = isDeepStrictEqual(holderNow(reservation), holder)
    if (isSame && !claimed.includes(textOf(reservation)))
      rmSync(reservationFile(reservation), { force: true, recursive: true })
  })
}

function kept(): readonly Kept[] {
  const addresses = networkDirectories().flatMap((files) =>
    namesIn(files.addresses).map((name) => keptAs({ network: nameOf(files), name }, addressHolder(files, name))),
  )
  return [...addresses, ...namesIn(portsDirectory()).map((name) => keptAs({ name }, portHolder(name)))]
}

function keptAs(reservation: Reservation, holder: AttachmentRecord | undefined): Kept {
  const file = reservationFile(reservation)
  return { reservation, file, inode: inodeOf(file), holder }
}

function inodeOf(file: string): number | undefined {
  return lstatSync(file, { throwIfNoEntry: false })?.ino
}

function holderNow({ network, name }: Reservation): AttachmentRecord | undefined {
  return network === undefined ? portHolder(name) : addressHolder(networkFiles(network), name)
}

/** A claim of another network is nobody's here. */
function addressHolder(files: NetworkFiles, name: string): AttachmentRecord | undefined {
  const holder = holderOf(files, name)
  return holder !== undefined && networkFiles(holder.key.network).directory === files.directory ? holder : undefined
}

function whatIsOf(holder: AttachmentRecord | undefined, stored: readonly StoredRecord[]) {
  const own = stored.filter(({ record }) => holder !== undefined && sameKey(record.key, holder.key))
  if (own.length === 0) return 'nothing'
  return own.some(({ isPending, record }) => isPending || record.spec === undefined) ? 'pending' : 'others'
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

/** Whether a reservation is old enough for gc: by the holder's stamp, else by the time of the file, since whoever damaged it did that later. */
export function isOldFile({ stamp }: CallContext, file: string, holder: AttachmentRecord | undefined): boolean {
  const writtenMs = lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Number.NaN
  if (holder === undefined) return Math.abs(Date.now() - writtenMs) > youngestMs
  return (
    hostStateOf(holder.writer, stamp) === 'ended' || isOlder(holder.writer, Date.parse(holder.createdAt), youngestMs)
  )
}

function isNoDirectory(path: string): boolean {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  return stat !== undefined && !stat.isDirectory()
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

function nameOf({ directory }: NetworkFiles): string {
  return directory.slice(directory.lastIndexOf('/') + 1)
}

function textOf({ network, name }: Reservation): string {
  return `${network ?? ''} ${name}`
}
