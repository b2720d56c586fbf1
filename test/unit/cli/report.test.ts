// SPDX-License-Identifier: Apache-2.0
// Findings as text and as JSON.

import { expect, it } from 'vitest'
import { countsOf, exitCodeOf, type Finding, findingText, openReport } from '../../../src/cli/shell/report.ts'

const ok: Finding = { status: 'ok', summary: 'ADD', detail: 'not shown' }
const known = { id: 'hairpin-off', message: 'hairpin_mode of v is 0', cause: 'off', cure: 'try this' }
const failed: Finding = { status: 'fail', summary: 'DEL', detail: 'one\ntwo', known }
const skipped: Finding = { status: 'skip', summary: 'CHECK', detail: 'no such verb' }

it('puts the symbol first, and detail below what is not ok only', () => {
  expect(findingText(ok, false)).toBe('  ok    ADD\n')
  expect(findingText(failed, false)).toBe(
    '  FAIL  DEL\n        one\n        two\n        hint: hairpin_mode of v is 0 [hairpin-off]: try this\n',
  )
  expect(findingText(skipped, false)).toBe('  skip  CHECK\n        no such verb\n')
})

it('colours the symbol only', () => {
  expect(findingText(ok, true)).toBe('  \x1b[32mok  \x1b[0m  ADD\n')
})

it.each([
  [[], 0],
  [[ok, skipped], 0],
  [[ok, failed], 1],
])('%j exits %i', (findings, code) => {
  expect(exitCodeOf(findings)).toBe(code)
})

it.each([
  [false, 'title\n\n  ok    ADD\n  skip  CHECK\n        no such verb\n\n1 ok, 0 failed, 1 skipped\n'],
  [true, undefined],
])('prints the same findings and exit code with isJson %s', (isJson, expected) => {
  let text = ''
  const out = (more: string) => {
    text += more
  }
  const report = openReport({ title: 'title', command: 'try', isJson, output: { out, err: out, hasColour: false } })
  report.add(ok)
  report.add(skipped)
  expect(report.close()).toBe(0)
  if (expected !== undefined) expect(text).toBe(expected)
  else expect(JSON.parse(text)).toMatchObject({ checks: [ok, skipped], counts: countsOf([ok, skipped]), exitCode: 0 })
})
