// SPDX-License-Identifier: Apache-2.0
// The addresses that `try` uses for its own uplink.

import { expect, it } from 'vitest'
import { uplinkApartFrom } from '../../../src/commands/private-node.ts'

it.each([
  [[], '198.51.100.2', '2001:db8:ffff::2'],
  [['198.51.100.128/25'], '203.0.113.2', '2001:db8:ffff::2'],
  [['2001:db8::/32', '198.51.0.0/16'], '203.0.113.2', '2001:db8:ffff::2'],
  [['198.51.100.0/24', '0.0.0.0/0', '::/0'], '203.0.113.2', '2001:db8:ffff::2'],
  [['2001:db8:ffff::/64', 'nonsense'], '198.51.100.2', '2001:db8:fffe::2'],
])('keeps out of the ranges %j where it can', (ranges, v4, v6) => {
  expect(uplinkApartFrom(JSON.stringify(ranges)).node).toEqual({ 4: v4, 6: v6 })
})
