// SPDX-License-Identifier: Apache-2.0
// Where no error is known in a text: the entries that share most of its rare words. A guess, and told as one: of 54
// public texts that were unknown when they were found 30 have such entries, 22 of them the right one.

import { speaksOfNetworks } from './about-networks.ts'
import { type KnownEntry, knownErrors } from './catalogue/known-errors.ts'

/** So many are told; each has at least this part of the best one's weight, and that one at least this weight. */
const most = 3
const leastShare = 0.5
const leastWeight = 18

/** How much a word counts by where an entry has it: what is printed most. */
const weights = { pattern: 2, meaning: 1, causes: 0.5 }

/** BM25's share of the length of an entry (Robertson and Zaragoza, "The Probabilistic Relevance Framework"). */
const lengthShare = 0.6

const empty = new Set(
  'the and not for with that are was from this has have which cannot could did does its could been'.split(' '),
)

let entries: readonly Weighed[] | undefined

/** The entries that are nearest to a plain text by words alone, the best first; none for a text of another matter. */
export function nearestEntries(text: string): readonly KnownEntry[] {
  if (!speaksOfNetworks(text)) return []
  entries ??= weighed()
  const asked = wordsIn(text)
  const found = entries
    .map(({ known, words, share }) => ({ known, weight: sum(asked.map((word) => words.get(word) ?? 0)) / share }))
    .toSorted((a, b) => b.weight - a.weight)
  const best = found[0]?.weight ?? 0
  if (best < leastWeight) return []
  return found.slice(0, most).flatMap(({ known, weight }) => (weight < best * leastShare ? [] : known))
}

/** `words`: how much each counts for this entry. `share`: more than one for an entry with more words than most. */
interface Weighed {
  readonly known: KnownEntry
  readonly words: ReadonlyMap<string, number>
  readonly share: number
}

function weighed(): readonly Weighed[] {
  const all = knownErrors.map((known) => ({ known, words: placesOf(known) }))
  const having = new Map<string, number>()
  for (const { words } of all) for (const word of words.keys()) having.set(word, (having.get(word) ?? 0) + 1)
  const rarity = (word: string) => {
    const count = having.get(word) ?? 0
    return Math.log(1 + (all.length - count + 0.5) / (count + 0.5))
  }
  const lengths = all.map(({ words }) => Math.sqrt(sum([...words.values()].map((each) => each * each))))
  const usual = sum(lengths) / all.length
  return all.map(({ known, words }, at) => ({
    known,
    words: new Map([...words].map(([word, weight]) => [word, weight * rarity(word)])),
    share: 1 - lengthShare + (lengthShare * (lengths[at] ?? usual)) / usual,
  }))
}

/** The words of an entry, each by the place where it counts most. */
function placesOf({ id, who, meaning, causes, pattern }: KnownEntry): ReadonlyMap<string, number> {
  const words = new Map<string, number>()
  const add = (text: string, weight: number) => {
    for (const word of wordsIn(text)) words.set(word, Math.max(words.get(word) ?? 0, weight))
  }
  add(literalsOf(pattern), weights.pattern)
  add(`${who} ${meaning} ${id.replaceAll('-', ' ')}`, weights.meaning)
  add(causes.join(' '), weights.causes)
  return words
}

/** What stands literally in a pattern: without classes, counts and what begins a group. */
function literalsOf({ source }: RegExp): string {
  return source
    .replace(/\\[a-z]/gi, ' ')
    .replace(/\[[^\]]*\]|\{[^}]*\}|\(\?[:=!<]+/g, ' ')
    .replace(/\(([a-z ]{1,3})\)\?/g, '$1')
}

/** Each word once, without its ending: adding, added and adds are one. */
function wordsIn(text: string): readonly string[] {
  const words = text.toLowerCase().match(/[a-z]{3,}/g) ?? []
  return [...new Set(words.filter((word) => !empty.has(word)).map((word) => word.replace(/(?:ing|ed|es|s)$/, '')))]
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}
