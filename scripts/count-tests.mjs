// SPDX-License-Identifier: Apache-2.0
// Adds up vitest's JSON reports, lists what was skipped, and prints the count of all as the last line.
// usage: node scripts/count-tests.mjs DIRECTORY FAILED RUN...
// DIRECTORY: RUN.json, and RUN.failed where vitest exited with an error; FAILED: failures elsewhere. A run is a project,
// or a part of one, PROJECT-PART. Exit code 1 when anything failed.
import { existsSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

const [directory = '.', failedElsewhere = '0', ...runs] = process.argv.slice(2)

/** A run's counts. One without a report, or one that failed in no single test, is one failed test. */
function countsOf(run) {
  const project = run.split('-')[0]
  const file = join(directory, `${run}.json`)
  const hasFailed = existsSync(join(directory, `${run}.failed`))
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

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)
const counted = runs.map(countsOf)
const all = [...new Set(counted.map(({ project }) => project))].map((project) => {
  const parts = counted.filter((each) => each.project === project)
  const [passed, failed] = ['passed', 'failed'].map((name) => sum(parts.map((part) => part[name])))
  return { project, passed, failed, skipped: parts.flatMap((part) => part.skipped) }
})
for (const { project, passed, failed, skipped } of all) {
  console.log(`${project.padEnd(6)} ${passed} passed, ${failed} failed, ${skipped.length} skipped`)
  for (const test of skipped) console.log(`       skipped: ${test.file}: ${test.name}`)
}
const failed = sum(all.map((each) => each.failed)) + Number(failedElsewhere)
const skipped = sum(all.map((each) => each.skipped.length))
console.log(`\n${sum(all.map((each) => each.passed))} passed, ${failed} failed, ${skipped} skipped`)
process.exitCode = failed > 0 ? 1 : 0
