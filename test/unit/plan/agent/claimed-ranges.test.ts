// SPDX-License-Identifier: Apache-2.0
// Who has a range, against comparing it with each.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Cidr, includes, networkOf, overlaps } from '../../../../src-before/cni/address.ts'
import { claimedRanges } from '../../../../src-before/plan/agent/node-ranges.ts'

const range = fc
  .record({
    family: fc.constantFrom(4 as const, 6 as const),
    value: fc.bigInt(0n, 255n),
    prefixLength: fc.integer({ min: 24, max: 32 }),
  })
  .map((cidr): Cidr => {
    // Few bits, so that ranges meet: the last ones of IPv4, those behind the 24th of IPv6.
    const shift = cidr.family === 4 ? 0n : 96n
    return networkOf({ ...cidr, value: cidr.value << shift })
  })

describe('claimedRanges', () => {
  it('finds an overlap where there is one, and none where there is none', () => {
    fc.assert(
      fc.property(
        fc.array(range, { maxLength: 8 }),
        range,
        fc.array(range, { maxLength: 4 }),
        (claimed, asked, hosts) => {
          const found = claimedRanges([...claimed, asked].map(({ prefixLength }) => prefixLength))
          for (const cidr of claimed) found.claim({ node: 'a', cidr })
          expect(found.overlapping(asked) !== undefined).toBe(claimed.some((cidr) => overlaps(cidr, asked)))
          for (const address of hosts)
            expect(found.holding(address) !== undefined).toBe(claimed.some((cidr) => includes(cidr, address)))
        },
      ),
    )
  })
})
