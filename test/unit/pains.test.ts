// SPDX-License-Identifier: Apache-2.0
// The faults of CNI plugins that operators report most, by their rank, each with a test that proves it does not
// happen here: its title says `(pain RANK: the fault in a few words)`. Reads the titles from the sources.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

/** Ranks that need a test. */
const ranks = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 22, 35]

interface Title {
  readonly file: string
  readonly rank: number
  readonly fault: string
}

const self = 'unit/pains.test.ts'
const titles: readonly Title[] = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((file) => /(\.test|-cases)\.ts$/.test(file) && file !== self)
  .flatMap((file) => titlesOf(file, readFileSync(`test/${file}`, 'utf8')))

/** The pains in the titles of `describe` and `it`: a quoted text after an opening parenthesis, or alone on its line. */
function titlesOf(file: string, text: string): readonly Title[] {
  const quoted = [...text.matchAll(/^.*?(?:\(|^\s*)(['"`])(.*)\1,/gm)].map((match) => match[2] ?? '')
  return quoted.flatMap((title) =>
    [...title.matchAll(/[(;] ?pain (\d+): ([^;)]+)/g)].map(([, rank, fault]) => {
      return { file, rank: Number(rank), fault: fault ?? '' }
    }),
  )
}

it.each(ranks)('pain %i has a test that names it', (rank) => {
  expect(titles.filter((title) => title.rank === rank)).not.toEqual([])
})

it('every pain that a title names is on the list, in words of its own', () => {
  expect([...new Set(titles.map(({ rank }) => rank))].sort((a, b) => a - b)).toEqual(ranks)
  expect(titles.filter(({ fault }) => fault.trim().length < 10)).toEqual([])
})
