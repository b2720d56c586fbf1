// SPDX-License-Identifier: Apache-2.0
// docs/benchmarks.md: one table and a picture in place of those of the run before. What people wrote around stays.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, release } from 'node:os'
import { join } from 'node:path'
import { peersCache } from '../contenders.mjs'
import { podsChart } from './pods-chart.mjs'

const docs = join(import.meta.dirname, '../../../docs')
const page = join(docs, 'benchmarks.md')
const [begin, end] = ['<!-- begin: npm run bench -- --report -->', '<!-- end: npm run bench -- --report -->']

/** What stands before and after a report on the page. Throws where it has no place for one: asked before the work is done. */
export function requirePage() {
  const text = readFileSync(page, 'utf8')
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`bench: ${page} has no "${begin}" and "${end}"`)
  return { before: text.slice(0, from), after: text.slice(to + end.length) }
}

/** Writes the page and its pictures. `results`: of all cases; `rounds`, `seconds`: of the run. Returns the files. */
export function writeReport({ results, rounds, seconds }) {
  const { whole } = results
  const pictures = {
    ...(whole?.fills && { 'benchmarks-pods.svg': podsChart(whole.fills) }),
  }
  for (const [name, picture] of Object.entries(pictures)) writeFileSync(join(docs, name), picture)
  const { before, after } = requirePage()
  const rows = Object.values(results).flatMap((result) => result.rows)
  const made = [begin, '', ...machine(rounds, seconds), '', ...table(rows), '', ...shown(pictures), end].join('\n')
  writeFileSync(page, `${before}${made}${after}`)
  return [page, ...Object.keys(pictures).map((name) => join(docs, name))]
}

const titles = {
  'benchmarks-pods.svg': 'ADD against the number of pods on the node',
}

function shown(pictures) {
  return Object.keys(pictures).flatMap((name) => [`![${titles[name]}](${name})`, ''])
}

function machine(rounds, seconds) {
  const version = execFileSync('node_modules/.bin/node', ['--version'], { encoding: 'utf8' }).trim().slice(1)
  return [
    `One run of ${Math.ceil(seconds / 60)} minutes, ${rounds} interleaved rounds, medians: ${cpus().length} CPUs, Linux`,
    `${release().split('.').slice(0, 2).join('.')}, Node ${version}${madeFrom()}.`,
  ]
}

/** The versions of what scripts/peers.sh built, from the names of its stamps. */
function madeFrom() {
  try {
    const stamps = readdirSync(join(peersCache, 'stamp'))
    const of = (part) => stamps.find((name) => name.startsWith(`${part}@`))?.split('@')[1]
    const plugins = of('cni')?.split('-v').at(-1)
    return plugins ? `, upstream plugins ${plugins}` : ''
  } catch {
    return ''
  }
}

function table(rows) {
  const line = ({ what, limit, value, unit, digits, detail, state }) => {
    const most = limit === undefined ? '' : `${limit} ${unit}`.trim()
    const measured = value === undefined ? 'left out' : `${value.toFixed(digits)} ${unit}`.trim()
    const shownAs = state === 'over' ? `**${measured}, over**` : measured
    return `| ${[what, most, shownAs, detail].map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`
  }
  return ['| what | at most | measured | both, and how sure |', '|---|---|---|---|', ...rows.map(line)]
}
