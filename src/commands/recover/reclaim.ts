// SPDX-License-Identifier: Apache-2.0
// An ADD that finds its pool full, or its host port taken by what cannot be read, does first what `trestle gc` would:
// reservations that no attachment can have are given back.

import { networkDirName } from '../../plan/model/names.ts'
import type { Reservation } from '../../plan/recovery/strays.ts'
import { namesIn } from '../../system/files/files.ts'
import { networkFiles } from '../../system/files/state.ts'
import { findRecords } from '../../system/store/records.ts'
import { reservationHolder } from '../../system/store/reservation-holders.ts'
import { portsDirectory } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'
import { heal } from './heal.ts'
import { collectStrays, judgeStrays } from './strays.ts'

/** `network`: whose addresses; absent: the node's host ports. `isMain`: its pods have links of ours. */
export interface Scope {
  readonly network?: string
  readonly isMain?: boolean
}

/**
 * Gives back the reservations of the scope that `trestle gc` would. What live pods without a record have is theirs again
 * before that. Nothing is looked at where every reservation has its record. What fails is told on stderr.
 */
export async function reclaimOrphans(context: CallContext, { network, isMain }: Scope): Promise<void> {
  const directory = network === undefined ? undefined : networkDirName(network)
  const isMeant = ({ network: of }: Reservation) => of === directory
  if (!reservationsIn(directory).some(isWithoutRecord)) return
  try {
    await heal(context, {})
    const verdicts = await judgeStrays(context, undefined, isMain ? directory : undefined)
    const failures = await collectStrays(
      context,
      verdicts.filter(({ reservation }) => isMeant(reservation)),
    )
    for (const failure of failures) process.stderr.write(`trestle: an orphan stays: ${failure}\n`)
  } catch (error) {
    process.stderr.write(`trestle: cannot tell orphans from what is in use: ${(error as Error).message}\n`)
  }
}

function reservationsIn(directory: string | undefined): readonly Reservation[] {
  if (directory === undefined) return namesIn(portsDirectory()).map((name) => ({ name }))
  return namesIn(networkFiles(directory).addresses).map((name) => ({ network: directory, name }))
}

function isWithoutRecord(reservation: Reservation): boolean {
  const holder = reservationHolder(reservation)
  return holder === undefined || findRecords(networkFiles(holder.key.network), holder.key).length === 0
}
