// SPDX-License-Identifier: Apache-2.0
// Do the tests see what breaks? Makes each mutant of test/mutants/ in a copy of the tree, builds it, runs the one
// test that is named, and wants it red. Each test runs once on the sound copy first: a test that is red there catches
// nothing. The checkout itself is not touched. Needs root for all but unit tests.
// usage: npm run mutants -- [--only PATTERN] [--part N/M] [--no-sound]
//   --only PATTERN   the tables, names, sources and tests that match this regular expression
//   --part N/M       of those every M-th, from the N-th on
//   --no-sound       skip the runs on the sound copy
// Last line: the counts. Exit code 1 when a mutant survived or could not be judged, 2 on a usage error.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

const checkout = join(import.meta.dirname, '..')
// The longest test of the suites takes four minutes.
const limitMs = 600_000

/** All tables, each mutant with the name of its table. */
async function readTables() {
  const folder = join(checkout, 'test/mutants')
  const names = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.ts') && name !== 'mutant.ts')
  const tables = names.sort().map(async (name) => {
    const { mutants } = await import(pathToFileURL(join(folder, name)).href)
    return mutants.map((mutant) => ({ table: basename(name, '.ts'), ...mutant }))
  })
  return (await Promise.all(tables)).flat()
}

/** A copy of the tree as it is now. */
function copyTree() {
  const tree = mkdtempSync(join(tmpdir(), 'trestle-mutants-'))
  const left = new Set(['.git', 'dist', 'node_modules'])
  const filter = (path) => !left.has(relative(checkout, path))
  cpSync(checkout, tree, { recursive: true, verbatimSymlinks: true, filter })
  // Half a gigabyte: hard links where the two are on one file system. Caches are the copy's own.
  const [from, to] = [join(checkout, 'node_modules'), join(tree, 'node_modules')]
  if (spawnSync('cp', ['-al', from, to]).status !== 0) {
    rmSync(to, { recursive: true, force: true })
    cpSync(from, to, { recursive: true, verbatimSymlinks: true })
  }
  for (const cache of ['.vite', '.vite-temp', '.vitest-cache'])
    rmSync(join(to, cache), { recursive: true, force: true })
  return tree
}

function inTree(tree, args) {
  const env = { ...process.env, NO_COLOR: '1', FAULTS: process.env.FAULTS ?? 'short' }
  delete env.FORCE_COLOR
  const { status, stdout, stderr } = spawnSync('npm', ['run', '-s', ...args], {
    cwd: tree,
    env,
    encoding: 'utf8',
    timeout: limitMs,
    killSignal: 'SIGKILL',
    maxBuffer: 1 << 28,
  })
  return { code: status ?? -1, output: `${stdout}${stderr}` }
}

/**
 * One test, by its name. `red`: it failed, or it did not end in time. `green`: it passed. `unknown`: no test of that
 * name ran. The output says why.
 */
function runTest(tree, { project, file, test }) {
  const report = join(tree, 'mutant-report.json')
  rmSync(report, { force: true })
  const name = test.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/%[sdifjo]|\\\$[\w.]+/g, '.*')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const { code, output } = inTree(tree, [`test:${project}`, '--', ...reporters, '-t', name, file])
  if (!existsSync(report)) return { colour: code === -1 ? 'red' : 'unknown', output }
  const results = JSON.parse(readFileSync(report, 'utf8')).testResults.flatMap((each) => each.assertionResults)
  const count = (status) => results.filter((each) => each.status === status).length
  if (count('failed') > 0) return { colour: 'red', output }
  return { colour: code === 0 && count('passed') > 0 ? 'green' : 'unknown', output }
}

/** Makes the defect and runs its test; the source is put back. `caught`, `SURVIVED`, or why it cannot be judged. */
function judge(tree, { file, find, replace, caughtBy }) {
  const path = join(tree, file)
  const sound = readFileSync(path, 'utf8')
  const parts = sound.split(find)
  if (parts.length !== 2) return { verdict: `its text occurs ${parts.length - 1} times in ${file}` }
  writeFileSync(path, parts.join(replace))
  try {
    if (caughtBy.project !== 'unit') {
      const { code, output } = inTree(tree, ['build'])
      if (code !== 0) return { verdict: 'does not build', output }
    }
    const { colour, output } = runTest(tree, caughtBy)
    return { verdict: { red: 'caught', green: 'SURVIVED', unknown: 'its test did not run' }[colour], output }
  } finally {
    writeFileSync(path, sound)
  }
}

const keyOf = ({ project, file, test }) => `${project} ${file} ${test}`

/** The tests that are not green without a defect: what they catch means nothing. */
function unsoundTests(tree, mutants) {
  const tests = new Map(mutants.map(({ caughtBy }) => [keyOf(caughtBy), caughtBy]))
  if ([...tests.values()].some(({ project }) => project !== 'unit')) {
    const { code, output } = inTree(tree, ['build'])
    if (code !== 0) throw new Error(`the sound tree does not build:\n${output}`)
  }
  const unsound = new Set()
  for (const [key, test] of tests) {
    const { colour, output } = runTest(tree, test)
    if (colour === 'green') continue
    unsound.add(key)
    console.log(`not green on the sound tree: ${test.file}: ${test.test}\n${tail(output)}`)
  }
  return unsound
}

const tail = (output) => output.split('\n').slice(-25).join('\n')

function parse() {
  try {
    const options = {
      only: { type: 'string', default: '' },
      part: { type: 'string', default: '1/1' },
      'no-sound': { type: 'boolean', default: false },
    }
    const { values } = parseArgs({ options })
    const [, nth, of] = /^(\d+)\/(\d+)$/.exec(values.part)?.map(Number) ?? []
    if (!(nth >= 1 && nth <= of)) throw new Error(`--part ${values.part}: wanted is for example 1/4`)
    return { only: new RegExp(values.only), nth, of, isSoundFirst: !values['no-sound'] }
  } catch (error) {
    console.error(`mutants: ${error.message}`)
    process.exit(2)
  }
}

const { only, nth, of, isSoundFirst } = parse()
const mutants = (await readTables())
  .filter(({ table, name, file, caughtBy }) =>
    [table, name, file, caughtBy.file, caughtBy.test].some((text) => only.test(text)),
  )
  .filter((_, at) => at % of === nth - 1)
if (mutants.length === 0) {
  console.error(`mutants: none matches ${only}`)
  process.exit(2)
}
const tree = copyTree()
process.on('exit', () => rmSync(tree, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130))
const unsound = isSoundFirst ? unsoundTests(tree, mutants) : new Set()
const counts = { caught: 0, survived: 0, unknown: 0 }
for (const mutant of mutants) {
  const start = performance.now()
  const { verdict, output = '' } = unsound.has(keyOf(mutant.caughtBy))
    ? { verdict: 'its test is not green on the sound tree' }
    : judge(tree, mutant)
  counts[{ caught: 'caught', SURVIVED: 'survived' }[verdict] ?? 'unknown'] += 1
  const seconds = ((performance.now() - start) / 1000).toFixed(0)
  const { file, test } = mutant.caughtBy
  console.log(`${verdict.padEnd(8)} ${seconds.padStart(4)} s  ${mutant.table}: ${mutant.name}`)
  console.log(`                 ${file.replace('test/', '')}: ${test}`)
  if (verdict !== 'caught' && output !== '') console.log(tail(output))
}
console.log(`\n${counts.caught} caught, ${counts.survived} survived, ${counts.unknown} not judged`)
process.exitCode = counts.survived + counts.unknown > 0 ? 1 : 0
