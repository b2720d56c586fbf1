// SPDX-License-Identifier: Apache-2.0
// Analyses a pasted text: errors of other programs by their words, trestle's own by ids and codes, the callers, and the
// remainder.

import { type Diagnosis, diagnosis, type KnownError, otherPrograms } from '../../catalogue/diagnosis.ts'
import { CniCode, type ErrorId, isErrorId } from '../../cni/model/error-code.ts'
import { aftermathOf, type Layer, layersOf, type Span, speakerOf } from './layers.ts'
import { distance, type Match, matchesIn, wordsOf } from './matches.ts'
import { errorCodes } from './own.ts'
import { plainText } from './plain-text.ts'
import { remainderOf } from './remainder.ts'

/** `cause`: the fault. `around`: a message that passes the fault on or comes with it. `after`: a clean-up's message. */
export type Role = 'cause' | 'around' | 'after'

/** A known error in a text. `said`: the words that were recognised. */
export interface Found extends KnownError, Span {
  readonly said: string
  readonly role: Role
}

/** The analysis of a text. */
export interface Recognised {
  /** Causes first. */
  readonly errors: readonly Found[]
  readonly codes: readonly Diagnosis[]
  /** Diagnoses of trestle's ids in the text; their codes are among `codes`. */
  readonly own: readonly Diagnosis[]
  /** The callers, outermost first. */
  readonly layers: readonly Layer[]
  /** Recognised and unrecognised words. */
  readonly known: readonly string[]
  readonly unknown: readonly string[]
  /** Without a known error: the program that printed the text. */
  readonly program: string | undefined
}

/** True if nothing was recognised. */
export function isEmpty({ errors, codes, own }: Pick<Recognised, 'errors' | 'codes' | 'own'>): boolean {
  return errors.length + codes.length + own.length === 0
}

/** Everything known in a text. */
export function recognise(pasted: string): Recognised {
  const text = plainText(pasted)
  const layers = layersOf(text)
  const ids = idsIn(text)
  const all = matchesIn(text, ids.length > 0)
  const ownIds = [...new Set(ids.flatMap((each) => each.ids))].map(diagnosis)
  const numbered = codesIn(text)
  const isOurs = ids.length > 0 || isSpokenByUs(text) || numbered.some(({ code }) => code >= codesOfOthers)
  const others = all.filter(({ alsoOurs }) => !isOurs || alsoOurs !== true)
  const errors = withRoles(text, others)
  const own = [...(isSpokenByUs(text) || others.length === 0 ? numbered : []), ...ids]
  const spans = [...layers, ...errors, ...own]
  const known = [...layers.map(({ words }) => words), ...errors.map(({ said }) => said), ...own.map(({ said }) => said)]
  const numbers = [...own, ...ownIds].map(({ code }) => code)
  const codes = errorCodes().filter(({ code }) => numbers.includes(code))
  const found = { errors, codes, own: ownIds, layers, known: [...new Set(known)], unknown: remainderOf(text, spans) }
  return { ...found, program: isEmpty(found) ? programOf(text) : undefined }
}

/**
 * Assigns roles; causes first, else in the order of the text. Of several causes in a line only the last, innermost one
 * counts, of several around it the first.
 */
function withRoles(text: string, matches: readonly Match[]): readonly Found[] {
  const aftermath = aftermathOf(text)
  const before = matches.filter(({ from }) => from < aftermath)
  const main = before.length > 0 ? before : matches
  const nearest = Math.min(...main.map(distance))
  const candidates = main.filter((match) => distance(match) === nearest)
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

/** Words with an id or code of trestle. */
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

/** Codes by their numbers. In another plugin's message, codes from 100 on are that plugin's. */
function codesIn(text: string): readonly (OwnWords & { readonly code: number })[] {
  const speaker = speakerOf(text)
  return numbersIn(text).filter(({ code }) => isSpokenByUs(text) || isAnybodys(code, speaker))
}

function isSpokenByUs(text: string): boolean {
  return speakerOf(text)?.startsWith('trestle') ?? /\btrestle\b/.test(text)
}

/** Codes from here on belong to each plugin; the specification defines codes below. */
const codesOfOthers = 100

/**
 * True if a code may be read here: a code of the specification, or without a plugin's name a code of trestle. Upstream
 * plugins use 999, and before 1.0 used 100, for all errors (pkg/skel of containernetworking/cni).
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

/** The first program in a text, of the programs whose errors the catalogue omits. */
function programOf(text: string): string | undefined {
  const lower = text.toLowerCase()
  const found = otherPrograms().flatMap(({ program, words }) => {
    const places = words.map((word) => lower.indexOf(word.toLowerCase())).filter((at) => at >= 0)
    return places.length === 0 ? [] : [{ program, at: Math.min(...places) }]
  })
  return found.toSorted((a, b) => a.at - b.at)[0]?.program
}
