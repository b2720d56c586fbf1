// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known word nearest to a misspelt word.

import { distance } from 'fastest-levenshtein'

/** The nearest word of `known`, regardless of case, if at most a third of its letters is wrong, or two are swapped. */
export function nearestWord(word: string, known: Iterable<string>): string | undefined {
  const lower = word.toLowerCase()
  const allowed = Math.min(3, Math.max(1, Math.floor(word.length / 3)))
  let nearest: string | undefined
  let least = Number.POSITIVE_INFINITY
  for (const name of known) {
    const steps = areSwapped(lower, name.toLowerCase()) ? 1 : distance(lower, name.toLowerCase())
    if (steps > allowed || steps >= least) continue
    least = steps
    nearest = name
  }
  return nearest
}

/** True if the words differ by two letters that changed places. */
function areSwapped(a: string, b: string): boolean {
  return distance(a, b) === 2 && [...a].toSorted().join('') === [...b].toSorted().join('')
}
