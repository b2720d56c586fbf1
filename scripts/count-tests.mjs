// SPDX-License-Identifier: Apache-2.0
// Adds up vitest's JSON reports, lists what was skipped, and prints the count of all as the last line.
// usage: node scripts/count-tests.mjs DIRECTORY FAILED      DIRECTORY: PROJECT.json, and PROJECT.failed where vitest exited
// with an error; FAILED: failures elsewhere. Exit code 1 when anything failed.
import { existsSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

const projects = ['unit', 'netns', 'e2e']
const [directory = '.', failedElsewhere = '0'] = process.argv.slice(2)

/** A project's counts. A run without a report, or one that failed in no single test, is one failed test. */
function countsOf(project) {
  const file = join(directory, `${project}.json`)
  const hasFailed = existsSync(join(directory, `${project}.failed`))
  if (!existsSync(file)) return { project, passed: 0, failed: 1, skipped: [] }
  const report = JSON.parse(readFileSync(file, 'utf8'))
  const tests = report.testResults.flatMap(({ name, assertionResults }) =>
    assertionResults.map((test) => ({ file: relative('.', name), name: test.fullName, status: test.status })),
  )
  const count = (status) => tests.filter((test) => test.status === status).length
  const failed = Math.max(count('failed'), hasFailed || !report.success ? 1 : 0)
  const skipped = tests.filter((test) => test.status !== 'passed' && test.status !== 'failed')
  return { project, passed: count('passed'), failed, skipped }
}

const all = projects.map(countsOf)
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)
for (const { project, passed, failed, skipped } of all) {
  console.log(`${project.padEnd(6)} ${passed} passed, ${failed} failed, ${skipped.length} skipped`)
  for (const test of skipped) console.log(`       skipped: ${test.file}: ${test.name}`)
}
const failed = sum(all.map((each) => each.failed)) + Number(failedElsewhere)
const skipped = sum(all.map((each) => each.skipped.length))
console.log(`\n${sum(all.map((each) => each.passed))} passed, ${failed} failed, ${skipped} skipped`)
process.exitCode = failed > 0 ? 1 : 0
