// SPDX-License-Identifier: Apache-2.0
// The findings of doctor: each has texts, none has the id of another matter, and `trestle explain` knows all.

import { expect, it } from 'vitest'
import { ownDiagnoses } from '../../../../src/commands/doctor/doctor.ts'
import { runCli } from '../../../support/collect.ts'

it('has texts for each, and explain has the same', async () => {
  for (const { id, meaning, cure } of ownDiagnoses()) {
    const { code, stdout } = await runCli(['explain', id])
    expect(code, id).toBe(0)
    expect(stdout).toContain(meaning)
    expect(stdout).toContain(cure)
  }
})

it('has cures that stand alone: the commands that explain shows to look with are not printed', () => {
  for (const { id, cure } of ownDiagnoses()) expect(cure, id).not.toMatch(/\b(?:first|second) number\b/)
})

it.each([
  [['--only', 'kernal'], 'did you mean "kernel"?'],
  [['--only', 'forwarding-of'], 'did you mean "forwarding-off"?'],
  [['--apply'], '--apply goes with --fix'],
])('refuses %j', async (words, text) => {
  const { code, stderr } = await runCli(['doctor', ...words])
  expect(code).toBe(2)
  expect(stderr).toContain(text)
})
