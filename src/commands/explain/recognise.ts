// SPDX-License-Identifier: Apache-2.0
// Analyses a pasted text: errors of other programs by their words, trestle's own by ids and codes.

import { type Diagnosis, diagnoses, diagnosis, isErrorId, type KnownError } from '../../catalogue/diagnosis.ts'
import { Code } from '../../cni/errors.ts'
import { distance, type Match, matchesIn, type Span, wordsOf } from './matches.ts'

/** `cause`: the fault. `around`: a message that passes the fault on or comes with it. `after`: a clean-up's message. */
type Role = 'cause' | 'around' | 'after'

/** A known error in a text. `said`: the words that were recognised. */
export interface Found extends KnownError, Span {
  readonly said: string
  readonly role: Role
}

export interface Recognised {
  readonly errors: readonly Found[]
  readonly codes: readonly Diagnosis[]
  /** Diagnoses of trestle's ids in the text; their codes are among `codes`. */
  readonly own: readonly Diagnosis[]
  readonly known: readonly string[]
}

export function isEmpty({ errors, codes, own }: Pick<Recognised, 'errors' | 'codes' | 'own'>): boolean {
  return errors.length + codes.length + own.length === 0
}

export function recognise(pasted: string): Recognised {
  const text = plainText(pasted)
  const ids = idsIn(text)
  const all = matchesIn(text, ids.length > 0)
  const ownIds = [...new Set(ids.flatMap((each) => each.ids))].map(diagnosis)
  const numbered = codesIn(text)
  const isOurs = ids.length > 0 || isSpokenByUs(text) || numbered.some(({ code }) => code >= codesOfOthers)
  const others = all.filter(({ alsoOurs }) => !isOurs || alsoOurs !== true)
  const errors = withRoles(text, others, ids.length > 0)
  const own = [...(isSpokenByUs(text) || others.length === 0 ? numbered : []), ...ids]
  const known = [...errors, ...own].map(({ said }) => said)
  const numbers = [...own, ...ownIds].map(({ code }) => code)
  const codes = errorCodes().filter(({ code }) => numbers.includes(code))
  return { errors, codes, own: ownIds, known: [...new Set(known)] }
}

/**
 * Assigns roles; causes first, else in the order of the text. Of several causes in a line only the last, innermost one
 * counts, of several around it the first, unless an id of trestle names the cause (`isOurs`).
 */
function withRoles(text: string, matches: readonly Match[], isOurs: boolean): readonly Found[] {
  const aftermath = aftermathOf(text)
  const before = matches.filter(({ from }) => from < aftermath)
  const main = before.length > 0 ? before : matches
  const nearest = Math.min(...main.map(distance))
  const candidates = main.filter((match) => distance(match) === nearest)
  const isCause = (match: Match): boolean => {
    if (!candidates.includes(match)) return false
    const further = candidates.some(({ from }) => from > match.from && !text.slice(match.from, from).includes('\n'))
    return nearest === 2 ? !isOurs && match === candidates[0] : !further
  }
  const roleOf = (match: Match): Role => (isCause(match) ? 'cause' : main.includes(match) ? 'around' : 'after')
  const order: readonly Role[] = ['cause', 'around', 'after']
  return matches
    .map((match): Found => ({ ...match, role: roleOf(match) }))
    .sort((a, b) => order.indexOf(a.role) - order.indexOf(b.role) || a.from - b.from)
}

/** The name of the innermost plugin in a text; undefined without one. */
function speakerOf(text: string): string | undefined {
  return [...text.matchAll(/\btype=["']([^"']+)["']/g)].at(-1)?.[1]
}

/**
 * The start of the message about the clean-up after a failure (dockershim prints both in one line), else the text's
 * end.
 */
function aftermathOf(text: string): number {
  const at = text.search(/,\s+failed\s+to\s+(?:clean\s+up\s+sandbox\s+container|teardown\s+pod)/)
  return at < 0 ? text.length : at
}

/** Words with an id or code of trestle. */
interface OwnWords extends Span {
  readonly code?: number
  readonly ids: readonly string[]
  readonly said: string
}

/** Messages have their ids in brackets at their end (cni/error.ts, messageWithId); `details` follow. */
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
  return code < codesOfOthers || (speaker === undefined && code > codesOfOthers && code !== Code.internal)
}

/** kubelet and containerd quote what they pass on: "code":101. `trestle try` begins a line with "code 101:". */
function numbersIn(text: string): readonly (OwnWords & { readonly code: number })[] {
  const pattern = /"(?:cniVersion|msg)"/.test(text)
    ? /(?:"code":|^[ \t]*code:?)\s*(\d{1,3})\b/gm
    : /^[ \t]*code:?\s*(\d{1,3})\b/gm
  return [...text.matchAll(pattern)].map((match) => ({ code: Number(match[1]), ids: [], ...wordsOf(match) }))
}

// trestle's own codes and ids (src/catalogue/errors.yaml).

export function errorCodes(): readonly Diagnosis[] {
  return [...diagnoses().values()].filter(({ id, code }) => id === `code-${code}`)
}

export function ownErrors(): readonly Diagnosis[] {
  return [...diagnoses().values()].filter(({ id }) => isErrorId(id))
}

// Restores a pasted text that events, journals and JSON have quoted.

/** The bound on a text, far above an event or a log line. */
const longest = 64 * 1024

/**
 * The text with plain quotes and without escapes of up to five nested quotations: \n and \t become characters, and two
 * single quotes become one, since YAML doubles them.
 */
export function plainText(text: string): string {
  return text
    .slice(0, longest)
    .replace(/\\(?:u([\da-fA-F]{4})|x([2-7][\da-fA-F]))/g, (_, four?: string, two?: string) =>
      String.fromCharCode(Number.parseInt(four ?? two ?? '', 16)),
    )
    .replace(/\\{1,31}(["'`/])/g, '$1')
    .replace(/\\([_*[\]<>#-])/g, '$1')
    .replace(/\*\*(?=\w)|(?<=[\w.:"'])\*\*/g, '')
    .replace(/(?<![\w"'`])`{1,2}([^`'"\n]{1,200})`{1,2}(?!\w)/g, '"$1"')
    .replace(/^[ \t]*(?:> ?){1,9}(?=\S)/gm, '')
    .replace(/\\{1,31}n(?![a-z])/g, '\n')
    .replace(/\\{1,31}[rt](?![a-z])/g, ' ')
    .replace(/''|[\u2018\u2019]/g, "'")
    .replace(/[\u201c\u201d]/g, '"')
    .replace(/[^\S\n]/g, ' ')
}
