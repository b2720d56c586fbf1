// SPDX-License-Identifier: Apache-2.0
// The findings of doctor: each has texts, none has the id of another matter, and `trestle explain` knows all.

import { expect, it } from 'vitest'
import { doctorChecks } from '../../../../src/cli/doctor/checks/checks.ts'
import { allChecks } from '../../../../src/cli/doctor/checks/finding.ts'
import { sharedChecks } from '../../../../src/cli/doctor/checks/shared-checks.ts'
import { knownErrors } from '../../../../src/cli/explain/catalogue/known-errors.ts'
import { checks } from '../../../../src/cli/lint/checks/checks.ts'
import { runCli } from '../../../support/collect.ts'

it('shares only ids that explain knows, and has none of its own that others have', () => {
  const known = knownErrors.map(({ id }) => id)
  expect(Object.keys(sharedChecks).filter((id) => !known.includes(id))).toEqual([])
  const others = [...known, ...Object.keys(checks)]
  expect(Object.keys(doctorChecks).filter((id) => others.includes(id))).toEqual([])
})

it('has texts for each, and explain has the same', async () => {
  for (const { id, meaning, cure } of allChecks()) {
    const { code, stdout } = await runCli(['explain', id])
    expect(code, id).toBe(0)
    expect(stdout).toContain(meaning)
    expect(stdout).toContain(cure)
  }
})

it('has cures that stand alone: the commands that explain shows to look with are not printed', () => {
  for (const { id, cure } of allChecks()) expect(cure, id).not.toMatch(/\b(?:first|second) number\b/)
})

it('lists them, in both formats', async () => {
  const { code, stdout } = await runCli(['doctor', '--list'])
  expect(code).toBe(0)
  expect(stdout.trim().split('\n')).toHaveLength(allChecks().length)
  const { json } = await runCli(['doctor', '--list', '-o', 'json'])
  expect((json as { checks: readonly unknown[] }).checks).toHaveLength(allChecks().length)
})

it.each([
  [['--only', 'kernal'], 'did you mean "kernel"?'],
  [['--skip', 'forwarding-of'], 'did you mean "forwarding-off"?'],
  [['--apply'], '--apply goes with --fix'],
  [['--wait', 'long'], 'use a number of seconds'],
])('refuses %j', async (words, text) => {
  const { code, stderr } = await runCli(['doctor', ...words])
  expect(code).toBe(2)
  expect(stderr).toContain(text)
})
