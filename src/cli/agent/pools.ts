// SPDX-License-Identifier: Apache-2.0
// The use of the node's ranges, from files, for the metrics and for the problem of a range that is nearly full.

import type { CallContext } from '../../commands/call/context.ts'
import { isDead } from '../../commands/teardown/attachments.ts'
import { isNearlyFull, type PoolLook, type PoolUse } from '../../plan/agent/problem.ts'
import { capacity, countedOf } from '../../plan/ipam/allocate.ts'
import { networkFiles } from '../../system/files/state.ts'
import { holderOf, takenAddresses } from '../../system/store/addresses.ts'
import { readOwn } from '../lint/own-plugin.ts'

/** The pools of a network with these ranges. */
export function poolUse(network: string, podCidrs: readonly string[]): readonly PoolUse[] {
  return poolsOf(network, podCidrs).map(({ range, addresses, total }) => ({ range, taken: addresses.length, total }))
}

/** The ranges that are nearly full, with their leaks. `before`: the result of the last look. */
export function nearlyFull(
  context: CallContext,
  { network, podCidrs }: { readonly network: string; readonly podCidrs: readonly string[] },
  before: readonly PoolLook[],
): readonly PoolLook[] {
  const files = networkFiles(network)
  const isLeaked = (address: string) => {
    const record = holderOf(files, address)
    return record !== undefined && isDead({ file: '', isPending: false, record }, context)
  }
  return poolsOf(network, podCidrs).flatMap(({ range, addresses, total }) => {
    const use = { range, taken: addresses.length, total }
    const was = before.some((each) => each.range === range)
    return isNearlyFull(use, was) ? [{ ...use, leaked: addresses.filter(isLeaked) }] : []
  })
}

function poolsOf(network: string, podCidrs: readonly string[]) {
  if (podCidrs.length === 0) return []
  const plugin = { conf: { type: 'trestle', podcidr: [...podCidrs] }, steps: [], index: 0 }
  const ipam = readOwn(plugin, { name: network, version: '1.0.0' }).conf?.ipam
  if (ipam?.kind !== 'pool') return []
  const taken = takenAddresses(networkFiles(network), ipam.cooldownS)
  return ipam.rangeSets.map((set) => ({
    range: set[0]?.subnet ?? '',
    addresses: countedOf(set, ipam.exclude, taken),
    total: Number(capacity(set, ipam.exclude)),
  }))
}
