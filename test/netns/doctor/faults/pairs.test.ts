// SPDX-License-Identifier: Apache-2.0
// Two faults at once: doctor names both, and nothing else.

import { expect, it } from 'vitest'
import { allFaults } from './all.ts'
import { done, giveTools, openBench } from './examine.ts'
import type { Fault } from './fault.ts'

/** By what they are. None of the two hides what the other is about. */
const pairs: readonly (readonly [string, string])[] = [
  ['forwarding off', "a pod's end down"],
  ['forwarding off', 'nft flush ruleset'],
  ['forwarding off', 'a rule of nft that drops by the bridge'],
  ['IPv6 forwarding off', 'hairpin off'],
  ['IPv6 off on the bridge', "a pod's end off the bridge"],
  ['IPv6 off on the bridge', "a pod's default route gone"],
  ["the bridge's address gone", 'the bandwidth limit gone'],
  ['an element of the masquerade taken out', 'a reservation removed'],
  ['the host ports flushed', 'a route to a pod alone that leads elsewhere'],
  ['a chain of nft with policy drop', 'router advertisements accepted on the bridge'],
  ['strict rp_filter on a second uplink', 'an element for a pod that no record names'],
  ['forwarding off after the next start', 'a record cut short by a power loss'],
  ['a list of another network that comes first', 'the bandwidth limit gone'],
  ['a template that was not filled in', 'nft flush ruleset'],
  ['a process of the node on the host port of a pod', "a pod's end down"],
]

const faultOf = (name: string): Fault => {
  const fault = allFaults.find(({ what }) => what === name)
  if (fault === undefined) throw new Error(`there is no fault "${name}"`)
  return fault
}

it.each(pairs)('names both: %s, and %s', (...names) => {
  const faults = names.map(faultOf)
  const bench = openBench('bridge')
  try {
    giveTools(bench)
    for (const { make } of faults) done(bench, make)
    const { ids, findings } = bench.node.doctor()
    const expected = faults.flatMap(({ doctor }) => doctor).toSorted()
    expect([...new Set(ids)].toSorted(), JSON.stringify(findings, undefined, 1)).toEqual(expected)
  } finally {
    for (const { tidy } of faults) bench.sh(tidy ?? 'true')
    bench.node.close()
  }
})
