// SPDX-License-Identifier: Apache-2.0
// The address that stands for everybody beyond the node: no route but a default one leads to it.

import { expect, it } from 'vitest'
import { farSender } from '../../../../src/commands/doctor/kernel.ts'

it.each<[string, readonly string[], string | undefined]>([
  ['a range for documentation as a rule', ['0.0.0.0/0', '10.1.0.0/16', '::/0'], '203.0.113.77'],
  ['another one where a link has the first', ['0.0.0.0/0', '203.0.113.0/24'], '198.51.100.77'],
  ['a route to the address alone counts', ['203.0.113.77/32', '198.51.100.0/24'], '192.0.2.77'],
  ['none of them where all three are taken', ['203.0.113.0/24', '198.51.100.0/24', '192.0.2.0/24'], '1.0.113.77'],
  ['what a VPN has for everybody is a default route', ['0.0.0.0/1', '128.0.0.0/1'], '203.0.113.77'],
  ['nothing where routes lead everywhere', Array.from({ length: 223 }, (_, at) => `${at + 1}.0.0.0/8`), undefined],
])('%s', (_, destinations, address) => {
  expect(farSender(destinations)).toBe(address)
})
