// SPDX-License-Identifier: Apache-2.0
// npm run bench: what trestle costs, as ratios within one run. Runs itself in private namespaces; needs root.
//   --rounds N      measured rounds of each case (default 30)
//   --only a,b      cases by name
//   --pods 1,300    pods on the node in the case `whole` (default 1,300)
//   --full          the sizes of the promise: 1000 pods, 50,000 foreign rules (minutes)
//   -o json         everything as JSON, series included
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { bare, masquerade } from './bench/case-bare.mjs'
import { locks } from './bench/case-locks.mjs'
import { memory, processes } from './bench/case-resources.mjs'
import { restore } from './bench/case-restore.mjs'
import { pods, rules } from './bench/case-scale.mjs'
import { start } from './bench/case-start.mjs'
import { storm } from './bench/case-storm.mjs'
import { whole } from './bench/case-whole.mjs'
import { copyExecutables } from './bench/contenders.mjs'
import { plot } from './bench/plot.mjs'
import { leftOut, renderTable } from './bench/table.mjs'

/** Each is run with {rounds, sizes, full, found, scratch} and returns {rows, notes}, and `series` where there is a plot of them. */
const cases = { start, processes, memory, bare, masquerade, pods, rules, whole, storm, restore, locks }

function readOptions() {
  const options = {
    rounds: { type: 'string', default: '30' },
    only: { type: 'string' },
    pods: { type: 'string', default: '1,300' },
    full: { type: 'boolean', default: false },
    output: { type: 'string', short: 'o', default: 'text' },
  }
  const { values } = parseArgs({ options })
  const rounds = Number(values.rounds)
  const names = values.only?.split(',') ?? Object.keys(cases)
  const unknown = names.find((name) => !Object.hasOwn(cases, name))
  if (unknown) throw new Error(`bench: no case ${unknown}; there are ${Object.keys(cases).join(', ')}`)
  if (!Number.isInteger(rounds) || rounds < 3) throw new Error('bench: --rounds takes a number of 3 or more')
  if (!['text', 'json'].includes(values.output)) throw new Error('bench: -o takes text or json')
  const sizes = values.pods.split(',').map(Number)
  if (!sizes.every((size) => size >= 1 && size <= 1000)) throw new Error('bench: --pods takes numbers from 1 to 1000')
  return { rounds, names, sizes, full: values.full, output: values.output }
}

/** Whether this process is where scripts/in-netns.sh put it. */
function isPrivate() {
  return process.env.TRESTLE_TEST_NETNS === readlinkSync('/proc/self/ns/net')
}

async function measure({ names, output, ...options }) {
  // Databases and reservations of the contenders; the mount is private (in-netns.sh).
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '/var/lib'])
  const scratch = mkdtempSync(join(tmpdir(), 'trestle-bench-'))
  try {
    const found = copyExecutables(scratch)
    const results = {}
    for (const name of names) {
      process.stderr.write(`bench: ${name}\n`)
      results[name] = await cases[name]({ ...options, found, scratch }).catch((error) => {
        return { rows: [leftOut(name, error.message)], notes: [] }
      })
    }
    if (output === 'json') return console.log(JSON.stringify({ options, results }))
    for (const [name, { notes }] of Object.entries(results)) console.log([`\n${name}`, ...notes].join('\n  '))
    for (const verb of ['add', 'del']) {
      const { series } = results.whole ?? {}
      if (series) console.log(`\n${plot(`whole network, ${verb.toUpperCase()}, ms (median)`, verb, series)}`)
    }
    console.log(`\n${renderTable(Object.values(results).flatMap(({ rows }) => rows))}`)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

const options = readOptions()
if (isPrivate()) await measure(options)
else {
  const inside = join(import.meta.dirname, 'in-netns.sh')
  const { status } = spawnSync(inside, [process.execPath, ...process.argv.slice(1)], { stdio: 'inherit' })
  process.exitCode = status ?? 1
}
