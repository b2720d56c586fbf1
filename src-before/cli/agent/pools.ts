// SPDX-License-Identifier: Apache-2.0
// The use of the node's ranges, from files, for the metrics and for the problem of a range that is nearly full.

import { capacity, countedAddresses, isLeaked, reservedAddresses } from '../../core.ts'
import { isNearlyFull, type PoolLook, type PoolUse, type Problem, poolProblems } from '../../plan/agent/problem.ts'
import { readOwn } from '../lint/own-plugin.ts'
import type { RoundInput } from './round.ts'

/** The pools of a network with these ranges. */
export function poolUse(network: string, podCidrs: readonly string[]): readonly PoolUse[] {
  return poolsOf(network, podCidrs).map(({ range, addresses, total }) => ({ range, taken: addresses.length, total }))
}

/** Counts addresses in whole rounds only, since pods come and go between rounds. */
export function lookAtPools({ known, settings, isWhole }: RoundInput, podCidrs: readonly string[]): readonly Problem[] {
  const before = known.pools ?? []
  if (isWhole && podCidrs.length > 0) known.pools = nearlyFull({ network: settings.network, podCidrs }, before)
  return poolProblems(settings.node, known.pools ?? [])
}

/** The ranges that are nearly full, with their leaks. `before`: the result of the last look. */
function nearlyFull(
  { network, podCidrs }: { readonly network: string; readonly podCidrs: readonly string[] },
  before: readonly PoolLook[],
): readonly PoolLook[] {
  return poolsOf(network, podCidrs).flatMap(({ range, addresses, total }) => {
    const use = { range, taken: addresses.length, total }
    const was = before.some((each) => each.range === range)
    return isNearlyFull(use, was) ? [{ ...use, leaked: addresses.filter((address) => isLeaked(network, address)) }] : []
  })
}

function poolsOf(network: string, podCidrs: readonly string[]) {
  if (podCidrs.length === 0) return []
  const plugin = { conf: { type: 'trestle', podcidr: [...podCidrs] }, steps: [], index: 0 }
  const ipam = readOwn(plugin, { name: network, version: '1.0.0' }).conf?.ipam
  if (ipam?.kind !== 'pool') return []
  const taken = new Set(reservedAddresses(network))
  return ipam.rangeSets.map((set) => ({
    range: set[0]?.subnet ?? '',
    addresses: countedAddresses(set, ipam.exclude, taken),
    total: Number(capacity(set, ipam.exclude)),
  }))
}
