// SPDX-License-Identifier: Apache-2.0
// Adds up vitest's JSON reports, lists what was skipped, and prints the count of all as the last line.
// usage: node scripts/count-tests.mjs DIRECTORY RUN...
// DIRECTORY: RUN.json, and RUN.failed where vitest exited with an error; NAME.tally of what is no run here: passed,
// failed, skipped. A run is a project, or a part of one, PROJECT-PART. Exit code 1 when anything failed.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

const [directory = '.', ...runs] = process.argv.slice(2)
const totals = { passed: 0, failed: 0, skipped: 0 }

/** A run's counts. One without a report, or one that failed in no single test, is one failed test. */
function countsOf(run) {
  const file = join(directory, `${run}.json`)
  if (!existsSync(file)) return { passed: 0, failed: 1, skipped: [] }
  const { testResults } = JSON.parse(readFileSync(file, 'utf8'))
  const tests = testResults.flatMap(({ name, assertionResults }) =>
    assertionResults.map(({ fullName, status }) => ({ text: `${relative('.', name)}: ${fullName}`, status })),
  )
  const of = (status) => tests.filter((test) => test.status === status)
  const skipped = tests.filter(({ status }) => status !== 'passed' && status !== 'failed')
  const hasFailed = existsSync(join(directory, `${run}.failed`))
  return { passed: of('passed').length, failed: Math.max(of('failed').length, hasFailed ? 1 : 0), skipped }
}

const projects = [...new Set(runs.map((run) => run.split('-')[0]))]
for (const project of projects) {
  const counts = runs.filter((run) => run.split('-')[0] === project).map(countsOf)
  const sum = (key) => counts.reduce((total, each) => total + each[key], 0)
  const skipped = counts.flatMap((each) => each.skipped)
  console.log(`${project.padEnd(6)} ${sum('passed')} passed, ${sum('failed')} failed, ${skipped.length} skipped`)
  for (const { text } of skipped) console.log(`       skipped: ${text}`)
  totals.passed += sum('passed')
  totals.failed += sum('failed')
  totals.skipped += skipped.length
}
for (const name of readdirSync(directory).filter((each) => each.endsWith('.tally'))) {
  const [passed, failed, skipped] = readFileSync(join(directory, name), 'utf8').trim().split(' ').map(Number)
  totals.passed += passed
  totals.failed += failed
  totals.skipped += skipped
}
console.log(`\n${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`)
process.exitCode = totals.failed > 0 ? 1 : 0
