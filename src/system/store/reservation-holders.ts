// SPDX-License-Identifier: Apache-2.0
// Whose a reservation is, of a network's address or of a host port.

import { lstatSync } from 'node:fs'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import type { Reservation } from '../../plan/recovery/strays.ts'
import { networkFiles } from '../files/state.ts'
import { holderOf } from './addresses.ts'
import { portHolder } from './ports.ts'
import { reservationFile } from './reservations.ts'

/** The claim behind it; undefined when there is none or it cannot be read. */
export function reservationHolder({ network, name }: Reservation): AttachmentRecord | undefined {
  return network === undefined ? portHolder(name) : holderOf(networkFiles(network), name)
}

/** Whether the name is taken, by whatever is there. */
export function isReserved(reservation: Reservation): boolean {
  return lstatSync(reservationFile(reservation), { throwIfNoEntry: false }) !== undefined
}
