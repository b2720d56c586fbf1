// SPDX-License-Identifier: Apache-2.0
// The steps of `try` as text and as JSON.

import { expect, it } from 'vitest'
import type { Step } from '../../../src/commands/probe/pods.ts'
import { exitCodeOf, openReport, stepText } from '../../../src/commands/try/try-inside.ts'

const ok: Step = { what: 'ADD', target: 'add', outcome: 'ok', detail: 'not shown' }
const known = { id: 'no-default-route', message: 'the pod has no IPv4 default route' }
const failed: Step = { what: 'DEL', target: 'del', outcome: 'failed', detail: 'one\ntwo', known }
const skipped: Step = { what: 'CHECK', target: 'check', outcome: 'skipped', detail: 'no such verb' }

it('puts the symbol first, and detail below what is not ok only', () => {
  expect(stepText(ok, false)).toBe('  ok    ADD\n')
  expect(stepText(failed, false)).toMatch(
    /^ {2}FAIL {2}DEL\n {8}one\n {8}two\n {8}hint: the pod has no IPv4 default route \[no-default-route\]: \S.*\n$/,
  )
  expect(stepText(skipped, false)).toBe('  skip  CHECK\n        no such verb\n')
})

it('colours the symbol only', () => {
  expect(stepText(ok, true)).toBe('  \x1b[32mok  \x1b[0m  ADD\n')
})

it.each([
  [[], 0],
  [[ok, skipped], 0],
  [[ok, failed], 1],
])('%j exits %i', (findings, code) => {
  expect(exitCodeOf(findings)).toBe(code)
})

it.each([
  [
    false,
    'title\n\n  ok    ADD\n  skip  CHECK\n        no such verb\n\n1 ok, 0 failed, 1 skipped\n' +
      'the node itself was not looked at: `trestle lint` and `trestle doctor` do that\n',
  ],
  [true, undefined],
])('prints the same findings and exit code with isJson %s', (isJson, expected) => {
  let text = ''
  const out = (more: string) => {
    text += more
  }
  const report = openReport('title', isJson, { out, err: out, hasColour: false })
  report.add(ok)
  report.add(skipped)
  expect(report.close()).toBe(0)
  if (expected !== undefined) expect(text).toBe(expected)
  else
    expect(JSON.parse(text)).toMatchObject({
      checks: [
        { status: 'ok', summary: 'ADD' },
        { status: 'skip', summary: 'CHECK', detail: 'no such verb' },
      ],
      counts: { ok: 1, failed: 0, skipped: 1 },
      exitCode: 0,
    })
})
