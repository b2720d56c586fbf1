// SPDX-License-Identifier: Apache-2.0
// What the node's ranges hold, for the metrics: files alone are read.

import { capacity, countedOf } from '../../../plan/ipam/allocate.ts'
import { networkFiles } from '../../../system/files/state.ts'
import { takenAddresses } from '../../../system/store/addresses.ts'
import { readOwn } from '../../lint/own-plugin.ts'

/** A range, how many addresses of it cannot be given out now, and how many it has. */
export interface PoolUse {
  readonly range: string
  readonly taken: number
  readonly total: number
}

/** The pools of a network with these ranges. */
export function poolUse(network: string, podCidrs: readonly string[]): readonly PoolUse[] {
  if (podCidrs.length === 0) return []
  const plugin = { conf: { type: 'trestle', podcidr: [...podCidrs] }, steps: [], index: 0 }
  const ipam = readOwn(plugin, { name: network, version: '1.0.0' }).conf?.ipam
  if (ipam?.kind !== 'pool') return []
  const taken = takenAddresses(networkFiles(network), ipam.cooldownS)
  return ipam.rangeSets.map((set) => ({
    range: set[0]?.subnet ?? '',
    taken: countedOf(set, ipam.exclude, taken).length,
    total: Number(capacity(set, ipam.exclude)),
  }))
}
