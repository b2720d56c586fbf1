// SPDX-License-Identifier: Apache-2.0
// The steps of `try` as text.

import { expect, it } from 'vitest'
import type { Step } from '../../../src/commands/probe/pods.ts'
import { stepText } from '../../../src/commands/try.ts'

const ok: Step = { what: 'ADD', target: 'add', outcome: 'ok', detail: 'not shown' }
const failed: Step = { what: 'DEL', target: 'del', outcome: 'failed', detail: 'one\ntwo', known: 'pool-exhausted' }
const skipped: Step = { what: 'CHECK', target: 'check', outcome: 'skipped', detail: 'no such verb' }

it('puts the outcome first, and the detail below what is not ok', () => {
  expect(stepText(ok, false)).toBe('  ok    ADD\n')
  expect(stepText(failed, false)).toBe('  FAIL  DEL\n        one\n        two\n')
  expect(stepText(skipped, false)).toBe('  skip  CHECK\n        no such verb\n')
})

it('colours the outcome only', () => {
  expect(stepText(ok, true)).toBe('  \x1b[32mok  \x1b[39m  ADD\n')
})
