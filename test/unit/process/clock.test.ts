// SPDX-License-Identifier: Apache-2.0
// Time stamps without a local time zone, against those of Date.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { timestamp } from '../../../src/process/clock.ts'

it('are those of Date, in every year to come that has four digits', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 253_402_300_799_999 }), (ms) => {
      expect(timestamp(ms)).toBe(new Date(ms).toISOString())
    }),
    { examples: [[0], [951_782_400_000], [1_709_164_800_000], [4_107_542_399_999]], numRuns: 2000 },
  )
})
