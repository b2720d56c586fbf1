// SPDX-License-Identifier: Apache-2.0
// Adds up vitest's JSON reports, lists what was skipped and what passed only when it was run again, and prints the count
// of all as the last line.
// usage: node scripts/count-tests.mjs DIRECTORY RUN...
//        node scripts/count-tests.mjs --failed-files DIRECTORY RUN
// DIRECTORY: RUN.json, and RUN.failed where vitest exited with an error; RUN-again.json and RUN-again.failed of the files
// that were run a second time; NAME.tally of what is no run here: passed, failed, skipped. A run is a project, or a part of one, PROJECT-PART. Exit code 1
// when anything failed. With --failed-files it prints the files that failed in a run, one a line: none where vitest failed
// outside of them.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

/** A run's report, with its files' names from here; undefined when vitest wrote none. */
function reportOf(directory, run) {
  const file = join(directory, `${run}.json`)
  if (!existsSync(file)) return undefined
  const report = JSON.parse(readFileSync(file, 'utf8'))
  const files = report.testResults.map(({ name, status, assertionResults }) => ({
    file: relative('.', name),
    failed: status === 'failed',
    tests: assertionResults.map((test) => ({ file: relative('.', name), name: test.fullName, status: test.status })),
  }))
  return { files, success: report.success && !existsSync(join(directory, `${run}.failed`)) }
}

const failedFiles = (report) => (report?.files ?? []).filter(({ failed }) => failed).map(({ file }) => file)
const isFailed = ({ status }) => status === 'failed'

/** A run's counts. One without a report, or one that failed in no single test, is one failed test. */
function countsOf(directory, run) {
  const project = run.split('-')[0]
  const first = reportOf(directory, run)
  if (!first) return { project, passed: 0, failed: 1, skipped: [], unsteady: [] }
  const again = reportOf(directory, `${run}-again`)
  const repeated = new Set(again?.files.map(({ file }) => file))
  const last = [...first.files.filter(({ file }) => !repeated.has(file)), ...(again?.files ?? [])]
  const tests = last.flatMap((each) => each.tests)
  const success = first.success || (again?.success === true && failedFiles(first).every((file) => repeated.has(file)))
  const failed = Math.max(tests.filter(isFailed).length, success ? 0 : 1)
  const skipped = tests.filter((test) => test.status !== 'passed' && !isFailed(test))
  const unsteady = failed > 0 ? [] : first.files.flatMap((each) => (each.failed ? namesOf(each) : []))
  return { project, passed: tests.filter((test) => test.status === 'passed').length, failed, skipped, unsteady }
}

/** The failed tests of a file, or the file where it failed outside of them. */
function namesOf({ file, tests }) {
  const failed = tests.filter(isFailed)
  return failed.length > 0 ? failed : [{ file, name: 'outside of its tests' }]
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)

/** The sums of all NAME.tally. */
function talliesIn(directory) {
  const files = readdirSync(directory).filter((name) => name.endsWith('.tally'))
  const counts = files.map((name) => readFileSync(join(directory, name), 'utf8').trim().split(' ').map(Number))
  return [0, 1, 2].map((at) => sum(counts.map((each) => each[at])))
}

function printCounts(directory, runs) {
  const counted = runs.map((run) => countsOf(directory, run))
  const all = [...new Set(counted.map(({ project }) => project))].map((project) => {
    const parts = counted.filter((each) => each.project === project)
    const [passed, failed] = ['passed', 'failed'].map((name) => sum(parts.map((part) => part[name])))
    const [skipped, unsteady] = ['skipped', 'unsteady'].map((name) => parts.flatMap((part) => part[name]))
    return { project, passed, failed, skipped, unsteady }
  })
  for (const { project, passed, failed, skipped, unsteady } of all) {
    console.log(`${project.padEnd(6)} ${passed} passed, ${failed} failed, ${skipped.length} skipped`)
    for (const test of skipped) console.log(`       skipped: ${test.file}: ${test.name}`)
    for (const test of unsteady) console.log(`       unsteady, passed the second time: ${test.file}: ${test.name}`)
  }
  const elsewhere = talliesIn(directory)
  const passed = sum(all.map((each) => each.passed)) + elsewhere[0]
  const failed = sum(all.map((each) => each.failed)) + elsewhere[1]
  const skipped = sum(all.map((each) => each.skipped.length)) + elsewhere[2]
  console.log(`\n${passed} passed, ${failed} failed, ${skipped} skipped`)
  process.exitCode = failed > 0 ? 1 : 0
}

const [first = '.', ...rest] = process.argv.slice(2)
if (first === '--failed-files') for (const file of failedFiles(reportOf(...rest))) console.log(file)
else printCounts(first, rest)
