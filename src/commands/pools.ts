// SPDX-License-Identifier: Apache-2.0
// How full the ranges of a network are.

import { readCall } from '../cni/call.ts'
import { readConfig } from '../config/read-config.ts'
import { capacity, countedAddresses } from '../ipam/choose.ts'
import { reservedAddresses } from '../state/reservations.ts'

/** A range, how many addresses of it are taken, and how many pods can have. */
export interface PoolUse {
  readonly range: string
  readonly taken: number
  readonly total: number
}

export function poolUse(network: string, ranges: readonly string[]): readonly PoolUse[] {
  if (ranges.length === 0) return []
  const conf = { cniVersion: '1.1.0', name: network, type: 'trestle', podcidr: ranges }
  const { ipam } = readConfig(JSON.stringify(conf), readCall({ CNI_COMMAND: 'STATUS' }))
  if (ipam.kind !== 'pool') return []
  const reserved = reservedAddresses(network)
  return ipam.rangeSets.map((set) => ({
    range: set[0]?.subnet ?? '',
    taken: countedAddresses(set, ipam.exclude, reserved).length,
    total: Number(capacity(set, ipam.exclude)),
  }))
}

/** A number of addresses; of a range of IPv6 about. */
export function countText(count: number): string {
  return count < 2 ** 24 ? `${count}` : `2^${Math.round(Math.log2(count))}`
}
