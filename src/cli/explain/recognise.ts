// SPDX-License-Identifier: Apache-2.0
// What is known of a pasted text: errors of others by their words, our own by their ids and codes, who passed them on,
// and what is left.

import { type Diagnosis, diagnosis } from '../../catalogue/diagnosis.ts'
import { CniCode, type ErrorId, isErrorId } from '../../cni/model/error-code.ts'
import { type KnownEntry, knownErrors, unknownOwnError } from './catalogue/known-errors.ts'
import { hintsOf } from './last-words.ts'
import { aftermathOf, type Layer, layersOf, type Span, speakerOf } from './layers.ts'
import { distance, type Match, matchesIn, passesOn, wordsOf } from './matches.ts'
import { nearestEntries } from './nearest.ts'
import { errorCodes } from './own.ts'
import { plainText, repaired } from './plain-text.ts'
import { remainderOf } from './remainder.ts'

/** `cause`: what went wrong. `around`: what passed it on, or came with it. `after`: said while cleaning up after it. */
export type Role = 'cause' | 'around' | 'after'

/** A known error in a text. `said`: the words that were recognised. */
export interface Found extends KnownEntry, Span {
  readonly said: string
  readonly role: Role
}

/** What a text holds. */
export interface Recognised {
  /** Causes first. */
  readonly errors: readonly Found[]
  readonly codes: readonly Diagnosis[]
  /** What our ids in the text say; the codes of these are among `codes`. */
  readonly own: readonly Diagnosis[]
  /** Who called whom, outermost first. */
  readonly layers: readonly Layer[]
  /** The words that were recognised, and those that were not. */
  readonly known: readonly string[]
  readonly unknown: readonly string[]
  /** Where no error is known: who is behind the words, and what the last of them say. */
  readonly hints: readonly string[]
  /** Then also: the entries nearest to the text by words alone. */
  readonly nearest: readonly KnownEntry[]
}

/** Everything known in a text: as it stands, else as the ways of pasting one are undone that few texts need. */
export function recognise(text: string): Recognised {
  const plain = plainText(text)
  const found = lookInto(plain)
  if (!isEmpty(found)) return found
  for (const other of repaired(plain)) {
    const again = lookInto(other)
    if (!isEmpty(again)) return again
  }
  return { ...found, nearest: nearestEntries(plain) }
}

/** Whether nothing was recognised. */
export function isEmpty({ errors, codes, own }: Pick<Recognised, 'errors' | 'codes' | 'own'>): boolean {
  return errors.length + codes.length + own.length === 0
}

function lookInto(text: string): Recognised {
  const layers = layersOf(text)
  const ids = idsIn(text)
  const all = matchesIn(text, ids.length > 0)
  const ownIds = [...new Set(ids.flatMap((each) => each.ids))].map(diagnosis)
  const own = [...codesIn(text, all), ...ids]
  const isOurs = own.length > 0 || speakerOf(text)?.startsWith('trestle') === true
  const isOwn = ({ alsoOurs, sameAs }: Match) => (isOurs && alsoOurs === true) || ownIds.some(({ id }) => id === sameAs)
  const others = all.filter((match) => !isOwn(match))
  const errors = [...withRoles(text, others), ...unknownOwn(text, others.length + own.length)]
  const spans = [...layers, ...errors, ...own]
  const known = [...layers.map(({ words }) => words), ...errors.map(({ said }) => said), ...own.map(({ said }) => said)]
  const numbers = [...own, ...ownIds].map(({ code }) => code)
  const codes = errorCodes().filter(({ code }) => numbers.includes(code))
  const found = { errors, codes, own: ownIds, layers, known: [...new Set(known)], unknown: remainderOf(text, spans) }
  return { ...found, hints: isEmpty(found) ? hintsOf(text, speakerOf(text)) : [], nearest: [] }
}

/**
 * Roles; causes first, each kind as the text has them. In one line the innermost counts, which is the last; of those
 * around it the first.
 */
function withRoles(text: string, matches: readonly Match[]): readonly Found[] {
  const aftermath = aftermathOf(text)
  const before = matches.filter(({ from }) => from < aftermath)
  const main = before.length > 0 ? before : matches
  const nearest = Math.min(...main.map(distance))
  const specific = main.filter((match) => distance(match) === nearest)
  const isPassedOn = (match: Match): boolean =>
    specific.some((other) => passesOn(other, match) && isSameLine(text, other.from, match.from))
  const candidates = nearest === 2 ? specific : main.filter((match) => specific.includes(match) || isPassedOn(match))
  const isCause = (match: Match): boolean => {
    if (!candidates.includes(match)) return false
    const further = candidates.some(({ from }) => from > match.from && isSameLine(text, match.from, from))
    return nearest === 2 ? match === candidates[0] : !further
  }
  const roleOf = (match: Match): Role => (isCause(match) ? 'cause' : main.includes(match) ? 'around' : 'after')
  const order: readonly Role[] = ['cause', 'around', 'after']
  return matches
    .map((match): Found => ({ ...match, role: roleOf(match) }))
    .sort((a, b) => order.indexOf(a.role) - order.indexOf(b.role) || a.from - b.from)
}

function isSameLine(text: string, from: number, to: number): boolean {
  return !text.slice(from, to).includes('\n')
}

/** Words that are ours. */
interface OwnWords extends Span {
  readonly code?: number
  readonly ids: readonly ErrorId[]
  readonly said: string
}

/** Messages have their ids in brackets at their end (cni/model/error.ts, messageWithId); `details` follow. */
function idsIn(text: string): readonly OwnWords[] {
  return [...text.matchAll(/\[([a-z\d-]+(?:,\s+[a-z\d-]+)*)\]/g)].flatMap((match) => {
    const words = (match[1] ?? '').split(/,\s+/)
    const ids = words.filter(isErrorId)
    return ids.length === words.length ? [{ ids, ...wordsOf(match) }] : []
  })
}

/** Codes by their numbers. Where another plugin speaks 100 and up are its own. */
function codesIn(text: string, others: readonly Match[]): readonly OwnWords[] {
  const speaker = speakerOf(text)
  const isOurs = speaker?.startsWith('trestle') ?? /\btrestle\b/.test(text)
  const isForeign = others.some(({ alsoOurs }) => alsoOurs !== true)
  return numbersIn(text).filter(({ code }) => isOurs || (!isForeign && isAnybodys(code, speaker)))
}

/** Codes from here on are each plugin's own; those below are the specification's. */
const codesOfOthers = 100

/**
 * Without a name at it a number above 100 may be ours. The upstream plugins use 999 for anything, and used 100 for it
 * before 1.0 (pkg/skel of containernetworking/cni).
 */
function isAnybodys(code: number, speaker: string | undefined): boolean {
  return code < codesOfOthers || (speaker === undefined && code > codesOfOthers && code !== CniCode.internal)
}

/** kubelet and containerd quote what they pass on: "code":101. `trestle try` begins a line with "code 101:". */
function numbersIn(text: string): readonly (OwnWords & { readonly code: number })[] {
  const pattern = /"(?:cniVersion|msg)"/.test(text)
    ? /(?:"code":|^[ \t]*code:?)\s*(\d{1,3})\b/gm
    : /^[ \t]*code:?\s*(\d{1,3})\b/gm
  return [...text.matchAll(pattern)].map((match) => ({ code: Number(match[1]), ids: [], ...wordsOf(match) }))
}

function unknownOwn(text: string, known: number): readonly Found[] {
  const match = known > 0 ? null : unknownOwnError.pattern.exec(text)
  if (match === null) return []
  return [{ ...unknownOwnError, role: 'cause', ...wordsOf(match) }]
}

/** The known error with this id. */
export function knownError(id: string): KnownEntry | undefined {
  return [...knownErrors, unknownOwnError].find((known) => known.id === id)
}

/** The diagnosis with this id, of whoever's error. */
export function diagnosisOf(id: string): Diagnosis {
  return knownError(id) ?? diagnosis(id)
}
