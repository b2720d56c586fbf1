// SPDX-License-Identifier: Apache-2.0
// Which known errors have their words in a text, each where it stands.

import { speaksOfNetworks } from './about-networks.ts'
import { type KnownEntry, knownErrors } from './catalogue/known-errors.ts'
import { otherMatters } from './known/known-error.ts'
import type { Span } from './layers.ts'
import { hasNoPodAddress } from './pasted-result.ts'
import { anySpace } from './plain-text.ts'
import { plainWords } from './plain-words.ts'
import { shortForms } from './short-forms.ts'

/** A known error in a text. `said`: the words that were recognised. */
export type Match = KnownEntry & Span & { readonly said: string }

/**
 * The errors of others in a plain text (plainText), none sharing words with another of its kind. `isOurs`: the text has
 * an id of ours, which says more than words of anybody.
 */
export function matchesIn(text: string, isOurs: boolean): readonly Match[] {
  const byTheirWords = findAll(text)
  return withoutOverlaps(byTheirWords.length > 0 || isOurs ? byTheirWords : inPlainWords(text))
}

interface Compiled {
  readonly errors: readonly { readonly known: KnownEntry; readonly pattern: RegExp }[]
  readonly plain: readonly { readonly id: string; readonly pattern: RegExp }[]
  readonly short: Compiled['plain']
}

let compiled: Compiled | undefined

/** Compiled at the first text: commands that explain nothing do not pay for it (45 ms). */
function patterns(): Compiled {
  compiled ??= {
    errors: knownErrors.map((known) => ({ known, pattern: compile(known.pattern) })),
    plain: plainWords.map(({ id, pattern }) => ({ id, pattern: compile(pattern) })),
    short: shortForms.map(({ id, pattern }) => ({ id, pattern: compile(pattern) })),
  }
  return compiled
}

/** Releases and languages differ in capitals, so none counts. */
function compile(pattern: RegExp): RegExp {
  return new RegExp(anySpace(pattern), 'i')
}

function findAll(text: string): readonly Match[] {
  const all = patterns().errors.flatMap(({ known, pattern }): readonly Match[] => {
    const match = pattern.exec(text)
    if (match === null || isOtherMatter(known, lineAround(text, match.index))) return []
    return [{ ...known, ...wordsOf(match) }]
  })
  const isAboutNetworks = speaksOfNetworks(text) || all.some((match) => distance(match) === 0)
  const matches = all.filter(({ needsNetwork }) => isAboutNetworks || needsNetwork !== true)
  const bare = knownErrors.find(({ id }) => id === 'no-pod-address')
  if (bare === undefined || !hasNoPodAddress(text)) return matches
  return [...matches, { ...bare, said: 'a result without an address on eth0', from: 0, to: text.length }]
}

/** What a text says in words of anybody, those that others use as well where it speaks of networks: at most one. */
function inPlainWords(text: string): readonly Match[] {
  const { plain, short } = patterns()
  for (const { id, pattern } of [...(speaksOfNetworks(text) ? plain : []), ...short]) {
    const match = pattern.exec(text)
    const known = knownErrors.find((each) => each.id === id)
    if (match === null || known === undefined || otherMatters.test(lineAround(text, match.index))) continue
    return [{ ...known, ...wordsOf(match) }]
  }
  return []
}

function isOtherMatter({ needsNetwork, unless }: KnownEntry, line: string): boolean {
  return (needsNetwork === true && otherMatters.test(line)) || unless?.test(line) === true
}

function lineAround(text: string, index: number): string {
  const end = text.indexOf('\n', index)
  return text.slice(text.lastIndexOf('\n', index) + 1, end < 0 ? text.length : end)
}

/**
 * Of two that share words the nearer one, then the first of the table; what wraps another shares words with it, and
 * so does what passed on the innermost.
 */
function withoutOverlaps(matches: readonly Match[]): readonly Match[] {
  const ordered = matches.toSorted((a, b) => distance(a) - distance(b))
  return ordered.filter((match, at) => {
    const earlier = ordered.slice(0, at).filter(({ wraps }) => wraps === match.wraps)
    return !earlier.some((other) => other.from < match.to && match.from < other.to && !passesOn(other, match))
  })
}

/** Whether the outer one stands before the inner one, which says that nothing is further in. */
export function passesOn(outer: Match, inner: Match): boolean {
  return inner.innermost === true && outer.innermost !== true && outer.from < inner.from
}

/** The lower, the nearer to the cause: words of one error only, words that others use too, words around another. */
export function distance({ wraps, needsNetwork }: KnownEntry): number {
  return wraps === true ? 2 : needsNetwork === true ? 1 : 0
}

/** What a match says, and where. */
export function wordsOf(match: RegExpExecArray): Span & { readonly said: string } {
  return { said: match[0].trim(), from: match.index, to: match.index + match[0].length }
}
