// SPDX-License-Identifier: Apache-2.0
// Whose a reservation is, of a network's address or of a host port.

import { lstatSync } from 'node:fs'
import type { AttachmentRecord } from '../plan/record.ts'
import type { Reservation } from '../plan/strays.ts'
import { holderOf } from './addresses.ts'
import { portHolder } from './ports.ts'
import { reservationFile } from './reservations.ts'
import { networkFiles } from './state.ts'

/** The claim behind it; undefined when there is none or it cannot be read. */
export function reservationHolder({ network, name }: Reservation): AttachmentRecord | undefined {
  return network === undefined ? portHolder(name) : holderOf(networkFiles(network), name)
}

/** Whether the name is taken, by whatever is there. */
export function isReserved(reservation: Reservation): boolean {
  return lstatSync(reservationFile(reservation), { throwIfNoEntry: false }) !== undefined
}
