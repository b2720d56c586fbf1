// SPDX-License-Identifier: Apache-2.0
// When a range is nearly full, and what is told of it.

import { expect, it } from 'vitest'
import { isNearlyFull, poolProblems } from '../../../../src-before/plan/agent/problem.ts'

it.each([
  [89, false, false],
  [90, false, true],
  [100, false, true],
  [89, true, true],
  [80, true, true],
  [79, true, false],
])('%i of 100, nearly full before: %s, is nearly full: %s', (taken, was, is) => {
  expect(isNearlyFull({ range: '10.0.0.0/24', taken, total: 100 }, was)).toBe(is)
})

it('says the same whatever the number of pods, and names some of the leaked addresses', () => {
  const leaked = Array.from({ length: 12 }, (_, at) => `10.0.0.${10 + at}`)
  const of = (taken: number) =>
    poolProblems('self', [{ range: '10.0.0.0/24', taken, total: 253, leaked }]).map(({ text }) => text)
  expect(of(230)).toEqual(of(253))
  expect(of(230)[0]).toContain('pods that are gone: 10.0.0.10, 10.0.0.11')
  expect(of(230)[0]).not.toContain('10.0.0.20')
})
