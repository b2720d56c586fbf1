// SPDX-License-Identifier: Apache-2.0
// Where reserved addresses and host ports are kept (state.ts): of a network the former, of the node the latter.

import type { Reservation } from '../../plan/recovery/strays.ts'
import { networkFiles, stateRoot } from '../files/state.ts'

/** The directory of reserved host ports. */
export function portsDirectory(): string {
  return `${stateRoot()}/ports`
}

/** Held while a host port is released, or reserved again. */
export function portsLock(): string {
  return `${stateRoot()}/ports.lock`
}

/** The file that is the reservation. */
export function reservationFile({ network, name }: Reservation): string {
  return network === undefined ? `${portsDirectory()}/${name}` : `${networkFiles(network).addresses}/${name}`
}

/** The lock under which the reservation is released, or made again. */
export function reservationLock({ network }: Reservation): string {
  return network === undefined ? portsLock() : networkFiles(network).lock
}
