// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known word nearest to a misspelt word.

/** The number of wrong letters allowed: a third of the word, at least one, at most three. */
function allowance(word: string): number {
  return Math.min(3, Math.max(1, Math.floor(word.length / 3)))
}

/**
 * Optimal string alignment distance: the insertions, deletions, replacements and swaps of neighbours from `a` to `b`.
 */
function distance(a: string, b: string): number {
  let before: readonly number[] = []
  let above: readonly number[] = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      const steps = [(above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (above[j - 1] ?? 0) + same]
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row.push(Math.min(...steps, ...(isSwap ? [(before[j - 2] ?? 0) + 1] : [])))
    }
    before = above
    above = row
  }
  return above[b.length] ?? 0
}

/** The nearest word of `known` within the allowance, regardless of case. */
export function nearestWord(word: string, known: Iterable<string>): string | undefined {
  const lower = word.toLowerCase()
  const ranked = [...known]
    .map((name) => ({ name, steps: distance(lower, name.toLowerCase()) }))
    .filter(({ steps }) => steps <= allowance(word))
    .sort((a, b) => a.steps - b.steps)
  return ranked[0]?.name
}

const negation = /^(?:not?|non|dont|disable|without|skip)[-_]?(?=.{2})/i

/** True for a word and its negation, like snat and noSnat: the opposite is no misspelling. */
export function isNegationOf(word: string, other: string): boolean {
  const [a, b] = [word.replace(negation, ''), other.replace(negation, '')]
  const isOneNegated = (a === word) !== (b === other)
  return isOneNegated && nearestWord(a, [b]) !== undefined
}
