// SPDX-License-Identifier: Apache-2.0
// The text of a file as one JSON object, or what keeps it from being one, in a plain sentence with its place.

import { parseConfig, undecodable } from '../../../cni/json/config-json.ts'
import { findJsonProblem, type JsonProblem } from '../../../cni/json/json-problem.ts'
import { toCniError } from '../../../cni/model/error.ts'
import { type Finding, type Found, findingAt, findingIn, findingOf, type Source, sourceOf } from '../checks/finding.ts'
import { keyPathOf } from '../json/key-path.ts'
import { directiveAt, unrendered } from './directives.ts'
import { type Mend, mendAt } from './json-repair.ts'
import { otherFormat } from './other-format.ts'

export interface ReadSource {
  /** Absent when it is no JSON object. */
  readonly source?: Source
  readonly findings: readonly Finding[]
}

/** More problems than this of one text help nobody. */
const mostProblems = 8

type Problem = Found & { readonly offset: number }

/** Reads a text; `file` is what findings call it. What is no JSON is mended where it can be, and read on. */
export function readSource(file: string, text: string): ReadSource {
  if (text.trim() === '')
    return { findings: [findingIn(file, { id: 'file-empty', message: 'there is nothing in it' })] }
  const { problems, mended } = syntaxProblems(text)
  const findings = problems.map((found) => findingAt(file, text, found))
  if (mended === undefined) return { findings }
  try {
    const standIns = problems.flatMap(({ id, offset }) => (id === 'placeholder' ? [offset] : []))
    const source = { ...sourceOf(file, mended, parseConfig(mended)), text, standIns }
    if (source.root['kind'] === 'NetworkAttachmentDefinition') {
      const message = 'this is a NetworkAttachmentDefinition'
      return { findings: [...findings, findingOf(source, { id: 'network-attachment', message, steps: ['kind'] })] }
    }
    const duplicates = source.places.duplicates.map((each) => findingOf(source, duplicate(each)))
    return { source, findings: [...findings, ...duplicates] }
  } catch (thrown) {
    const message = toCniError(thrown).message.replace(undecodable, '')
    const found = findingAt(file, text, { id: 'not-an-object', message, offset: text.search(/\S/) })
    return { findings: [...findings, found] }
  }
}

/** What keeps a text from being JSON, and the text without it; the latter undefined when something cannot be mended. */
function syntaxProblems(text: string): { readonly problems: readonly Problem[]; readonly mended?: string } {
  const whole = otherFormat(text)
  if (whole !== undefined) return { problems: [whole] }
  const problems: Problem[] = []
  const kinds = new Set<Mend['kind']>()
  let mended = text
  for (let turn = 0; turn < 64 && problems.length < mostProblems; turn++) {
    const problem = mended.startsWith('\ufeff')
      ? ({ offset: 0, kind: 'other', problem: '' } as const)
      : findJsonProblem(mended)
    if (problem === undefined) return { problems, mended }
    const directive = directiveAt(mended, problem.offset)
    if (directive !== undefined) return { problems: [...problems, unrendered(directive)] }
    // What stands in for a placeholder may not fit; nobody wrote it.
    if (kinds.has('template') && mended[problem.offset] !== text[problem.offset]) return { problems }
    const mend = mendAt(mended, problem)
    // The twentieth comment is no news.
    const isNews = mend === undefined || !['comment', 'quote'].includes(mend.kind) || !kinds.has(mend.kind)
    if (isNews) problems.push(problemOf({ ...problem, found: mended.charAt(problem.offset) }, mend))
    if (mend === undefined) return { problems }
    kinds.add(mend.kind)
    mended = mend.text
    // Quoted text of YAML is one line: a comment in it goes on to its end.
    if (mend.kind === 'comment' && mended.slice(mend.offset).trim() === '') return { problems }
  }
  return { problems }
}

/** `found`: the character there. */
type FoundThere = Pick<JsonProblem, 'offset' | 'kind' | 'problem'> & { readonly found: string }

function problemOf({ offset, kind, problem, found }: FoundThere, mend: Mend | undefined): Problem {
  const at = { id: 'json-syntax', offset } as const
  if (mend?.kind === 'mark') {
    const message = 'the file begins with a byte order mark, which JSON does not have'
    return { ...at, message, cure: 'save it as UTF-8 without BOM' }
  }
  if (mend?.kind === 'template') {
    return { id: 'placeholder', message: `${mend.what} was not replaced`, offset: mend.offset }
  }
  if (mend?.kind === 'comment') return { ...at, message: 'JSON has no comments', cure: cures.comment }
  if (mend?.kind === 'second-comma') return { ...at, message: 'a comma after a comma', cure: 'remove one of them' }
  if (mend?.kind === 'literal') {
    const message = `${mend.what} is not JSON: it has true, false and null, in small letters`
    return { ...at, message, cure: `write ${mend.what === 'None' ? 'null' : mend.what.toLowerCase()}` }
  }
  if (mend?.kind === 'quote' && !mend.what.startsWith("'")) {
    const message = `${mend.what.slice(0, 1)} is a typographic quote: JSON has " only`
    return { ...at, message, cure: 'replace the typographic quotes by "; word processors and web pages make them' }
  }
  const cure = kind === 'not-quoted' ? (keyCures[found] ?? cures[kind]) : cures[kind]
  return { ...at, message: problem, cure }
}

/** Where a key belongs and a sign stands, quotes are not what is missing. */
const keyCures: Readonly<Record<string, string>> = {
  '{': 'close the object before it with }; several plugins need "plugins": [ { … }, { … } ]',
  '[': 'put a key and a colon before it, or close the object before it with }',
  ']': 'close the object before it with }',
  ':': 'put the key before the colon',
  ',': 'remove one comma, or put an entry between them',
  '}': 'put an entry there, or remove the bracket',
}

/** What to do about each kind of problem. */
const cures: Readonly<Record<JsonProblem['kind'], string | undefined>> = {
  'comma-too-many': 'remove the comma: the last entry has none',
  'comma-missing': 'put a comma between the entries, or close the object or list',
  'cut-short': 'the file is cut short: write it whole, elsewhere, and move it here in one step',
  comment: 'remove the comment, or keep it as text under a key of its own, like "_comment"',
  'not-quoted': 'put it in double quotes',
  'more-text': 'a file holds one object: remove the rest, or make it a file of its own',
  other: undefined,
}

function duplicate({ offset, steps }: { offset: number; steps: readonly (string | number)[] }): Found {
  return { id: 'duplicate-key', message: `${keyPathOf(steps)} is there twice`, offset }
}
