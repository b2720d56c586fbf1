// SPDX-License-Identifier: Apache-2.0
// A value of the round before is used again only where nothing that it was made from has changed.

import { expect, it } from 'vitest'
import { type Made, madeFrom } from '../../../../src-before/cli/agent/routes.ts'

it('makes a value once for the same things, and anew for others', () => {
  const [one, same, other] = [{ name: 'a' }, { name: 'a' }, { name: 'b' }]
  let made = 0
  let kept: Made<number> | undefined
  const ask = (...from: readonly unknown[]) => {
    kept = madeFrom(kept, from, () => ++made)
    return kept.value
  }
  expect(ask(one, 'text', 1)).toBe(1)
  expect(ask(one, `te${'xt'}`, 1)).toBe(1)
  expect(ask(same, 'text', 1)).toBe(2)
  expect(ask(same, 'other', 1)).toBe(3)
  expect(ask(same, 'other')).toBe(4)
  expect(ask(same, 'other', other)).toBe(5)
  expect(ask('other', same, other)).toBe(6)
  expect(ask('other', same, other)).toBe(6)
})

it('makes it again where it could not be made', () => {
  const failing = () => {
    throw new Error('no')
  }
  const kept = madeFrom(undefined, ['a'], () => 1)
  expect(() => madeFrom(kept, ['b'], failing)).toThrow('no')
  expect(madeFrom(kept, ['a'], failing).value).toBe(1)
})
