// SPDX-License-Identifier: Apache-2.0
// The table of what was tried, over all files of a run: workers append rows to a file, and the run's end prints
// it. Used by vitest as the project's global setup.

import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** Rounds of one verb on one kind of network. `kinds`: how many of each kind of fault. */
export interface Row {
  readonly set: string
  readonly verb: string
  readonly tried: number
  readonly survived: number
  readonly leaks: number
  readonly addresses: number
  readonly streams: number
  readonly broken: number
  readonly kinds: Readonly<Record<string, number>>
}

const verbs = ['first ADD of the node', 'first ADD', 'steady ADD', 'DEL', 'GC']
const counted = ['tried', 'survived', 'leaks', 'addresses', 'streams', 'broken'] as const
const titles = ['network', 'verb', 'faults', 'survived', 'leaks', 'lost addresses', 'streams', 'interrupted']

/** Adds rounds to the table of the run. */
export function addRow(row: Row): void {
  appendFileSync(file(), `${JSON.stringify(row)}\n`)
}

/** Starts the table. */
export function setup(): void {
  process.env['FAULTS_TABLE'] = join(mkdtempSync(`${tmpdir()}/trestle-table-`), 'rows')
}

/** Prints it. */
export function teardown(): void {
  const rows = existsSync(file()) ? readFileSync(file(), 'utf8').trim().split('\n') : []
  const all = merged(rows.map((line) => JSON.parse(line) as Row))
  rmSync(dirname(file()), { recursive: true })
  for (const line of formatTable(all)) console.log(`faults: ${line}`)
}

/** The lines of the table, the sum and the kinds of faults at the end. */
export function formatTable(rows: readonly Row[]): readonly string[] {
  const sum = (of: (row: Row) => number) => rows.reduce((total, row) => total + of(row), 0)
  const cells = [
    titles,
    ...rows.map((row) => [row.set, row.verb, ...counted.map((name) => `${row[name]}`)]),
    ['all', '', ...counted.map((name) => `${sum((row) => row[name])}`)],
  ]
  const widths = titles.map((_, column) => Math.max(...cells.map((line) => line[column]?.length ?? 0)))
  const lines = cells.map((line) =>
    line.map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))),
  )
  const kinds = [...new Set(rows.flatMap((row) => Object.keys(row.kinds)))].sort()
  return [
    ...lines.map((line) => line.join('  ')),
    kinds.map((kind) => `${kind} ${sum((row) => row.kinds[kind] ?? 0)}`).join(', '),
  ]
}

/** Rows of the same network and verb as one. `streams` are those that ran, so the most of them. */
function merged(rows: readonly Row[]): readonly Row[] {
  const byName = new Map<string, Row>()
  for (const row of rows) {
    const name = `${row.set}, ${verbs.indexOf(row.verb)}`
    const other = byName.get(name)
    byName.set(name, other === undefined ? row : both(other, row))
  }
  return [...byName.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
}

function both(a: Row, b: Row): Row {
  const numbers = Object.fromEntries(counted.map((name) => [name, a[name] + b[name]]))
  const names = [...new Set([...Object.keys(a.kinds), ...Object.keys(b.kinds)])]
  const kinds = Object.fromEntries(names.map((kind) => [kind, (a.kinds[kind] ?? 0) + (b.kinds[kind] ?? 0)]))
  return { ...a, ...numbers, kinds } as Row
}

function file(): string {
  const path = process.env['FAULTS_TABLE']
  if (path === undefined) throw new Error('the faults project has no table')
  return path
}
