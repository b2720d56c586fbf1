// SPDX-License-Identifier: Apache-2.0
// Reservations that no attachment accounts for: of a record that was lost, or a file that was damaged. What a pod
// may still use stays and is reported.

import { bareAddress } from '../../cni/model/address.ts'
import { networkDirName } from '../model/names.ts'
import type { AttachmentRecord } from '../model/record.ts'
import { reservationName } from '../rules/host-ports.ts'

/** A reserved address or host port. `network`: its directory's name; absent: a host port, which is the node's. */
export interface Reservation {
  readonly network?: string
  readonly name: string
}

/** What is known of a reservation. */
export interface ReservationFacts {
  readonly reservation: Reservation
  /** Some attachment's record has it. */
  readonly isClaimed: boolean
  /** Who the file says has it; undefined where it cannot be read. */
  readonly holder: AttachmentRecord | undefined
  /**
   * What there is of the holder: nothing, a call in progress, a pending cleanup, or a finished attachment that has it
   * not.
   */
  readonly holderHas: 'nothing' | 'pending' | 'others'
  /** The holder's namespace is gone or from before a restart. */
  readonly isHolderDead: boolean
  readonly isListed: boolean | undefined
  /** Whether it was made more than `youngestMs` ago (garbage.ts). */
  readonly isOld: boolean
  /** Whether there may be attachments that no record is known of. */
  readonly mayBeOfUnknownPod: boolean
}

/** What becomes of a reservation, and why. */
export interface ReservationVerdict {
  readonly reservation: Reservation
  readonly holder: AttachmentRecord | undefined
  readonly verdict: 'collect' | 'report' | 'keep'
  readonly why: string
}

/** Decides about one reservation. */
export function judgeReservation(facts: ReservationFacts): ReservationVerdict {
  const { reservation, holder } = facts
  const say = (verdict: ReservationVerdict['verdict'], why: string): ReservationVerdict => ({
    reservation,
    holder,
    verdict,
    why,
  })
  if (facts.isClaimed) return say('keep', 'its attachment has it')
  if (holder === undefined || facts.holderHas === 'others') {
    const what = holder === undefined ? 'it cannot be read' : 'the attachment it names has others'
    if (facts.mayBeOfUnknownPod) return say('report', `${what}, and a pod without a record may use it`)
    return facts.isOld ? say('collect', `${what}, and no attachment has it`) : say('keep', 'younger than five minutes')
  }
  if (facts.holderHas === 'pending') return say('keep', 'a call in progress has it')
  if (!facts.isHolderDead || facts.isListed) return say('report', 'the record of its attachment is lost')
  return facts.isOld
    ? say('collect', 'its pod is gone, and the record of it')
    : say('keep', 'younger than five minutes')
}

/** The names under which an attachment has addresses and host ports reserved; an intent record tells nothing. */
export function recordReservations({ key, spec }: AttachmentRecord): readonly Reservation[] {
  if (spec === undefined) return []
  const network = networkDirName(key.network)
  const addresses = spec.ips.map(({ address }) => ({ network, name: bareAddress(address) }))
  return [...addresses, ...(spec.hostPorts?.ports ?? []).map((port) => ({ name: reservationName(port) }))]
}

/** A reservation in words. */
export function reservationText({ network, name }: Reservation): string {
  return network === undefined ? `host port ${name}` : `address ${name} of network ${network}`
}
