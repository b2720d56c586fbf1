// SPDX-License-Identifier: Apache-2.0
// The count that scripts/test ends with: a failure counts until the file has passed a second time, and is then listed.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'counts-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

type Statuses = Record<string, Record<string, string>>

/** Writes a run's report: each file's tests with their status; a file without a test failed outside of them. */
function report(run: string, files: Statuses, exit = 0): void {
  const testResults = Object.entries(files).map(([file, tests]) => {
    const statuses = Object.values(tests)
    const status = statuses.length === 0 || statuses.includes('failed') ? 'failed' : 'passed'
    const assertionResults = Object.entries(tests).map(([fullName, each]) => ({ fullName, status: each }))
    return { name: resolve(file), status, assertionResults }
  })
  const success = exit === 0 && testResults.every(({ status }) => status === 'passed')
  writeFileSync(join(directory, `${run}.json`), JSON.stringify({ success, testResults }))
  if (!success) writeFileSync(join(directory, `${run}.failed`), '')
}

function count(...args: string[]): { code: number | null; out: string; last: string | undefined } {
  const { status, stdout } = spawnSync(process.execPath, ['scripts/count-tests.mjs', ...args], { encoding: 'utf8' })
  return { code: status, out: stdout, last: stdout.trimEnd().split('\n').at(-1) }
}
const total = (...runs: string[]) => count(directory, '0', ...runs)

it('adds up runs, skips apart', () => {
  report('unit', { 'a.test.ts': { one: 'passed', two: 'pending' } })
  report('netns-1', { 'b.test.ts': { three: 'passed' } })
  expect(total('unit', 'netns-1')).toMatchObject({ code: 0, last: '2 passed, 0 failed, 1 skipped' })
})

it('counts a failed file that passed the second time as passed, and lists it', () => {
  report('netns-1', { 'a.test.ts': { one: 'failed', two: 'passed' }, 'b.test.ts': { three: 'passed' } })
  report('netns-1-again', { 'a.test.ts': { one: 'passed', two: 'passed' } })
  const { code, out, last } = total('netns-1')
  expect({ code, last }).toEqual({ code: 0, last: '3 passed, 0 failed, 0 skipped' })
  expect(out).toContain('unsteady, passed the second time: a.test.ts: one\n')
})

it.each<[string, Statuses, Statuses | undefined, number, number]>([
  ['not run again', { 'a.test.ts': { one: 'failed' } }, undefined, 0, 1],
  ['failed again', { 'a.test.ts': { one: 'failed' } }, { 'a.test.ts': { one: 'failed' } }, 0, 1],
  ['other tests failed', { 'a.test.ts': { one: 'failed' } }, { 'a.test.ts': { one: 'passed', two: 'failed' } }, 0, 1],
  ['another file again', { 'a.test.ts': { one: 'failed' } }, { 'b.test.ts': { two: 'passed' } }, 0, 1],
  ['an error outside of files', { 'a.test.ts': { one: 'passed' } }, undefined, 1, 1],
  ['a file without tests', { 'a.test.ts': {} }, undefined, 0, 1],
])('counts a failure: %s', (_, first, again, exit, failed) => {
  report('netns-1', first, exit)
  if (again) report('netns-1-again', again)
  const { code, last, out } = total('netns-1')
  expect(code).toBe(1)
  expect(last).toContain(`, ${failed} failed, `)
  expect(out).not.toContain('unsteady')
})

it('counts a run without a report, and failures elsewhere', () => {
  report('unit', { 'a.test.ts': { one: 'passed' } })
  expect(count(directory, '2', 'unit', 'e2e')).toMatchObject({ code: 1, last: '1 passed, 3 failed, 0 skipped' })
})

it('names the files to run again', () => {
  report('netns-1', { 'a.test.ts': { one: 'failed' }, 'b.test.ts': { two: 'passed' }, 'c.test.ts': {} })
  expect(count('--failed-files', directory, 'netns-1').out).toBe('a.test.ts\nc.test.ts\n')
  expect(count('--failed-files', directory, 'netns-2').out).toBe('')
})
