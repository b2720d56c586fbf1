// SPDX-License-Identifier: Apache-2.0
// npm run bench: what trestle costs, as ratios within one run. Runs itself in private namespaces; needs root.
//   --rounds N      measured rounds of each case (default 20)
//   --only a,b      cases by name
//   --pods 1,300    pods on the node in the case `whole` (default 1,300)
//   --short         start, whole network with one pod, processes: under two minutes
//   --full          the sizes of the promise: 1000 pods, 50,000 foreign rules (minutes)
//   --report        the same sizes, and docs/benchmarks.md with its pictures
//   -o json         everything as JSON, series included
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { processes } from './bench/case-resources.mjs'
import { pods, rules } from './bench/case-scale.mjs'
import { start } from './bench/case-start.mjs'
import { storm } from './bench/case-storm.mjs'
import { whole } from './bench/case-whole.mjs'
import { copyExecutables } from './bench/contenders.mjs'
import { requirePage, writeReport } from './bench/report/page.mjs'
import { makeScratch } from './bench/scratch.mjs'
import { leftOut, renderTable } from './bench/table.mjs'

/**
 * Each is run with {rounds, sizes, full, found, scratch} and returns {rows, notes} (JSON has more).
 * Namespaces stay until the end: what is most held to its limits comes first.
 */
const cases = { whole, start, processes, pods, rules, storm }

function readOptions() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '20' },
      only: { type: 'string' },
      pods: { type: 'string' },
      short: { type: 'boolean', default: false },
      full: { type: 'boolean', default: false },
      report: { type: 'boolean', default: false },
      output: { type: 'string', short: 'o', default: 'text' },
      // For this program itself: where the part in private namespaces writes its results.
      results: { type: 'string' },
    },
  })
  const { report, output, results, short } = values
  if (short && report) throw new Error('bench: --report measures all of it, --short a part')
  const rounds = Number(values.rounds)
  const all = Object.keys(cases)
  const names = values.only?.split(',') ?? (short ? ['start', 'whole', 'processes'] : all)
  const unknown = names.find((name) => !all.includes(name))
  if (unknown) throw new Error(`bench: no case ${unknown}; there are ${all.join(', ')}`)
  if (!Number.isInteger(rounds) || rounds < 3) throw new Error('bench: --rounds takes a number of 3 or more')
  if (!['text', 'json'].includes(output)) throw new Error('bench: -o takes text or json')
  const sizes = (values.pods ?? (short ? '1' : '1,300')).split(',').map(Number)
  if (!sizes.every((size) => size >= 1 && size <= 1000)) throw new Error('bench: --pods takes numbers from 1 to 1000')
  return { rounds, names, sizes, full: values.full || report, report, output, results }
}

/** Whether this process is where scripts/in-netns.sh put it. */
function isPrivate() {
  return process.env.TRESTLE_TEST_NETNS === readlinkSync('/proc/self/ns/net')
}

/** Runs those of `cases` that are asked for. Returns their results by name: of one that fails, the reason. */
async function run({ names, ...options }) {
  const scratch = makeScratch()
  const found = copyExecutables(scratch)
  const results = {}
  for (const name of names) {
    const start = performance.now()
    results[name] = await cases[name]({ ...options, found, scratch }).catch((error) => {
      return { rows: [leftOut(name, error.message)], notes: [] }
    })
    process.stderr.write(`bench: ${name}: ${((performance.now() - start) / 1000).toFixed(0)} s\n`)
  }
  return results
}

/** The cases, in namespaces of their own. */
function runInside() {
  const file = join(makeScratch(), 'results')
  const words = [process.execPath, ...process.argv.slice(1), '--results', file]
  const { status } = spawnSync(join(import.meta.dirname, 'in-netns.sh'), words, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
  return JSON.parse(readFileSync(file, 'utf8'))
}

function print(results) {
  for (const [name, { notes }] of Object.entries(results)) console.log([`\n${name}`, ...notes].join('\n  '))
  console.log(`\n${renderTable(Object.values(results).flatMap(({ rows }) => rows))}`)
}

const options = readOptions()
// The control groups of the nodes go at the end of the process.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
if (options.results !== undefined) {
  if (!isPrivate()) throw new Error('bench: --results is for the part in private namespaces')
  // Databases and reservations of the contenders; the mount is private (in-netns.sh).
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '/var/lib'])
  writeFileSync(options.results, JSON.stringify(await run(options)))
} else {
  if (options.report) requirePage()
  if (!['dist/trestle', 'dist/empty'].every((file) => existsSync(file)))
    execFileSync(process.execPath, ['build.mjs', '--empty'], { stdio: 'inherit' })
  const start = performance.now()
  const results = runInside()
  const seconds = (performance.now() - start) / 1000
  if (options.output === 'json') console.log(JSON.stringify({ options, results }))
  else print(results)
  process.stderr.write(`bench: ${seconds.toFixed(0)} s in all\n`)
  const { rounds } = options
  if (options.report)
    for (const file of writeReport({ results, rounds, seconds })) process.stderr.write(`bench: ${file}\n`)
}
