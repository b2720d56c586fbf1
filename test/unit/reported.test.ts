// SPDX-License-Identifier: Apache-2.0
// The faults of CNI plugins that operators report most (docs/design.md, "Reported faults"), each with a test that
// proves it does not happen here: its title says `(PROJECT#NUMBER: the fault in a few words)`. Reads the titles from the sources.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

interface Title {
  readonly file: string
  readonly report: string
  readonly fault: string
}

const [, table = ''] = readFileSync('docs/design.md', 'utf8').split('\n## Reported faults\n')
const reports = [...table.matchAll(/^\| ([a-z-]+#\d+) \|/gm)].map(([, report = '']) => report)
const titles: readonly Title[] = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((file) => /(\.test|-cases)\.ts$/.test(file) && file !== 'unit/reported.test.ts')
  .flatMap((file) => titlesOf(file, readFileSync(`test/${file}`, 'utf8')))

/** The reports in the titles of `describe` and `it`: a quoted text after an opening parenthesis, or alone on its line. */
function titlesOf(file: string, text: string): readonly Title[] {
  const quoted = [...text.matchAll(/^.*?(?:\(|^\s*)(['"`])(.*)\1,/gm)].map((match) => match[2] ?? '')
  return quoted.flatMap((title) =>
    [...title.matchAll(/[(;] ?([a-z-]+#\d+): ([^;)]+)/g)].map(([, report = '', fault = '']) => ({
      file,
      report,
      fault,
    })),
  )
}

it('the table has reports', () => {
  expect(reports.length).toBeGreaterThan(10)
})

it.each(reports)('%s has a test that names it', (report) => {
  expect(titles.filter((title) => title.report === report)).not.toEqual([])
})

it('every report that a title names is in the table, in words of its own', () => {
  expect(titles.filter(({ report }) => !reports.includes(report))).toEqual([])
  expect(titles.filter(({ fault }) => fault.trim().length < 10)).toEqual([])
})
