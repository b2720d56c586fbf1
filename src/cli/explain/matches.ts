// SPDX-License-Identifier: Apache-2.0
// The errors of other programs in a text, with their positions.

import { diagnosis, type KnownError, wordings } from '../../catalogue/diagnosis.ts'
import { speaksOfNetworks } from './about-networks.ts'
import type { Span } from './layers.ts'

/** A known error in a text. `said`: the words that were recognised. */
export type Match = KnownError & Span & { readonly said: string }

/** Errors of image pulls, volumes and the API server's hooks, which have the same words. */
const otherMatters =
  /failed to (?:pull|resolve (?:image|reference))|pulling image|sandbox image|ImagePull|PullImage|registry endpoint|\/v2\/\S*manifests|MountVolume(?![^\n]{0,160}\/sys\/fs\/bpf)|(?<!multus-)webhook(?! "multus|Configuration|s\[\d)/i

/**
 * The errors of other programs in a plain text (plainText); two errors of a kind share no words. `isOurs`: the text has
 * an id of trestle, which counts more than an error in a person's words.
 */
export function matchesIn(text: string, isOurs: boolean): readonly Match[] {
  const found = byWording(text)
  return withoutOverlaps(found.length > 0 || isOurs ? found : asRetold(text))
}

interface Compiled {
  readonly known: KnownError
  readonly pattern: RegExp
  readonly retold: RegExp | undefined
  readonly unless: RegExp | undefined
}

let compiled: readonly Compiled[] | undefined

/** Compiles the patterns with the first text, for other commands' start-up. Case is ignored: releases differ in it. */
function errors(): readonly Compiled[] {
  const compile = (source: string | undefined) => (source === undefined ? undefined : new RegExp(source, 'i'))
  compiled ??= wordings().map(({ id, pattern, retold, unless }) => {
    const known = diagnosis(id) as KnownError
    return { known, pattern: new RegExp(pattern, 'i'), retold: compile(retold), unless: compile(unless) }
  })
  return compiled
}

function byWording(text: string): readonly Match[] {
  const all = errors().flatMap((each) => matchOf(text, each, each.pattern))
  const isAboutNetworks = speaksOfNetworks(text) || all.some((match) => distance(match) === 0)
  return all.filter(({ words }) => isAboutNetworks || words !== 'shared')
}

/** At most one match, since a person's few words name one object and its fault. */
function asRetold(text: string): readonly Match[] {
  if (!speaksOfNetworks(text)) return []
  const all = errors().flatMap((each) => {
    const known: KnownError = { ...each.known, words: 'shared' }
    return each.retold === undefined ? [] : matchOf(text, { ...each, known }, each.retold)
  })
  return all.slice(0, 1)
}

function matchOf(text: string, { known, unless }: Compiled, pattern: RegExp): readonly Match[] {
  const match = pattern.exec(text)
  if (match === null) return []
  const line = lineAround(text, match.index)
  const isOther = unless?.test(line) === true || (known.words === 'shared' && otherMatters.test(line))
  return isOther ? [] : [{ ...known, ...wordsOf(match) }]
}

function lineAround(text: string, index: number): string {
  const end = text.indexOf('\n', index)
  return text.slice(text.lastIndexOf('\n', index) + 1, end < 0 ? text.length : end)
}

/**
 * Of two matches that share words keeps the nearer, else the catalogue's first; a match around another may share words.
 */
function withoutOverlaps(matches: readonly Match[]): readonly Match[] {
  const ordered = matches.toSorted((a, b) => distance(a) - distance(b))
  return ordered.filter((match, at) => {
    const earlier = ordered.slice(0, at).filter(({ words }) => (words === 'around') === (match.words === 'around'))
    return !earlier.some((other) => other.from < match.to && match.from < other.to)
  })
}

/** Distance to the cause: lowest for words of one error, then words of several errors, then words around another. */
export function distance({ words }: KnownError): number {
  return words === 'around' ? 2 : words === 'shared' ? 1 : 0
}

/** The matched words and their position. */
export function wordsOf(match: RegExpExecArray): Span & { readonly said: string } {
  return { said: match[0].trim(), from: match.index, to: match.index + match[0].length }
}
