// SPDX-License-Identifier: Apache-2.0
// Reserved addresses of a network (reservations.ts), and those that are in their cooldown.

import { lstatSync, lutimesSync, renameSync, rmSync } from 'node:fs'
import type { Range } from '../../config/net-conf.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import { rangeOf } from '../../plan/ipam/allocate.ts'
import { isDiskRefusal, linkOnce, makeDirectory, type NamesIn, namesIn, writeText } from '../files/files.ts'
import { directoryNameOf, type NetworkFiles, readState } from '../files/state.ts'
import { type Releasing, release, reservationHolder } from './reservations.ts'

/** The addresses that cannot be given out: reserved, or freed less than `cooldownS` seconds ago. */
export function takenAddresses(files: NetworkFiles, cooldownS: number, names: NamesIn = namesIn): Set<string> {
  const taken = new Set(names(files.addresses))
  const cooling = coolingAddresses(files, cooldownS)
  for (const address of namesIn(files.cooling)) {
    if (cooling.has(address)) taken.add(address)
    else rmSync(`${files.cooling}/${address}`, { force: true, recursive: true })
  }
  return taken
}

/** The addresses that cool down, and for how many seconds more. */
export function coolingAddresses({ cooling }: NetworkFiles, cooldownS: number): ReadonlyMap<string, number> {
  const left = namesIn(cooling).map((address) => [address, leftS(`${cooling}/${address}`, cooldownS)] as const)
  return new Map(left.filter(([, seconds]) => seconds > 0))
}

/** Reserves one address for the intent record in `intentFile`; false when someone else has it. */
export function reserveAddress(files: NetworkFiles, intentFile: string, address: string): boolean {
  return linkOnce(intentFile, `${files.addresses}/${address}`)
}

/** Takes back what this call has reserved a moment ago. */
export function withdrawAddress(files: NetworkFiles, address: string): void {
  rmSync(`${files.addresses}/${address}`, { force: true })
}

/** The intent record behind a reservation; undefined when there is none or it cannot be read. */
export function holderOf(files: NetworkFiles, address: string): AttachmentRecord | undefined {
  return reservationHolder({ network: directoryNameOf(files), name: address })
}

/** A range set by its place in the configuration, and how many there are. */
export interface PlacedSet {
  readonly index: number
  readonly count: number
  readonly ranges: readonly Range[]
}

/** Where a range set's round robin goes on. Only a hint. */
interface RoundRobin {
  readonly last: string | undefined
  readonly remember: (address: string) => void
}

/**
 * The address last given out from a range set. Each place in the configuration has a file. Where ranges change places,
 * come or go, the file of another place has the set's own address, and that file takes this one's in exchange.
 */
export function roundRobin(files: NetworkFiles, { index, count, ranges }: PlacedSet): RoundRobin {
  const write = (place: number, address: string) => writeText(`${files.directory}/last.${place}`, address)
  const isOwn = (address: string | undefined) => address !== undefined && rangeOf(ranges, address) !== undefined
  const here = readLast(files, index)
  if (isOwn(here)) return { last: here, remember: (address) => write(index, address) }
  const places = namesIn(files.directory).flatMap((name) => /^last\.(\d+)$/.exec(name)?.[1] ?? [])
  const own = places.map(Number).find((place) => isOwn(readLast(files, place)))
  const remember = (address: string) => {
    if (here !== undefined) write(own ?? index + count, here)
    write(index, address)
  }
  return { last: own === undefined ? undefined : readLast(files, own), remember }
}

function readLast(files: NetworkFiles, place: number): string | undefined {
  // A directory of that name would be in the way of every ADD.
  return readState(`${files.directory}/last.${place}`, (text) => text.trim())
}

/** Gives back `addresses`, or absent those that say they are its; what changed hands meanwhile is left alone. */
export async function releaseAddresses(
  files: NetworkFiles,
  of: Releasing,
  { addresses, cooldownS }: { readonly addresses?: readonly string[]; readonly cooldownS: number },
): Promise<void> {
  const remove = (address: string) => drop(files, address, cooldownS)
  const network = directoryNameOf(files)
  await release(of, { network, known: addresses, purpose: 'release addresses', remove })
}

function drop(files: NetworkFiles, address: string, cooldownS: number): void {
  const file = `${files.addresses}/${address}`
  if (cooldownS <= 0 || !hasCooling(files)) {
    rmSync(file, { force: true, recursive: true })
    return
  }
  const now = Date.now() / 1000
  // Whatever somebody has made of the file: what a link points to is not ours to touch.
  lutimesSync(file, now, now)
  rmSync(`${files.cooling}/${address}`, { force: true, recursive: true })
  renameSync(file, `${files.cooling}/${address}`)
}

/** Whether there is a place for it to cool down in; on a full disk, or with a file in that place, it goes without. */
function hasCooling({ cooling }: NetworkFiles): boolean {
  try {
    makeDirectory(cooling)
    return true
  } catch (error) {
    const isInTheWay = ['EEXIST', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')
    if (!isInTheWay && !isDiskRefusal(error)) throw error
    return false
  }
}

/** With a clock that was set back the time of freeing is to come: no address waits longer than its cooldown. */
function leftS(file: string, cooldownS: number): number {
  const freed = lstatSync(file, { throwIfNoEntry: false })
  return freed === undefined ? 0 : cooldownS - Math.abs(Date.now() - freed.mtimeMs) / 1000
}
