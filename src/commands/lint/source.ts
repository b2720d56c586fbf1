// SPDX-License-Identifier: Apache-2.0
// The text of a file as one JSON object, or the problems of the text in plain sentences with their places.

import { toCniError } from '../../cni/errors.ts'
import { parseConfig } from '../../cni/json.ts'
import type { Finding } from '../findings.ts'
import { type Found, findingAt, findingAtKey, findingIn, keyPathOf, type Source } from './finding.ts'
import { placesOf } from './json-places.ts'
import { findJsonProblem, type JsonProblem } from './json-problems.ts'
import { placeholderAt, unrendered } from './templates.ts'

interface ReadSource {
  /** Absent if the text is not a JSON object. */
  readonly source?: Source
  readonly findings: readonly Finding[]
}

const mostProblems = 8

type Problem = Found & { readonly offset: number }

/** `file` is the name of the text in findings. Invalid JSON is repaired if possible, and read on. */
export function readSource(file: string, text: string): ReadSource {
  if (text.trim() === '')
    return { findings: [findingIn(file, { id: 'file-empty', message: 'there is nothing in it' })] }
  const { problems, mended } = syntaxProblems(text)
  const findings = problems.map((found) => findingAt(file, text, found))
  if (mended === undefined) return { findings }
  try {
    const standIns = problems.flatMap(({ id, offset }) => (id === 'placeholder' ? [offset] : []))
    const source = { file, text, root: parseConfig(mended), places: placesOf(mended), standIns }
    if (source.root['kind'] === 'NetworkAttachmentDefinition') {
      const message = 'this is a NetworkAttachmentDefinition'
      return { findings: [...findings, findingAtKey(source, { id: 'network-attachment', message, steps: ['kind'] })] }
    }
    const duplicates = source.places.duplicates.map((each) => findingAtKey(source, duplicate(each)))
    return { source, findings: [...findings, ...duplicates] }
  } catch (thrown) {
    const message = toCniError(thrown).message.replace('error unmarshall network config: ', '')
    const found = findingAt(file, text, { id: 'not-an-object', message, offset: text.search(/\S/) })
    return { findings: [...findings, found] }
  }
}

/** The problems of a text, and its repaired text; the latter is undefined if a repair is impossible. */
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
    const template = unrendered(text)
    if (template !== undefined) return { problems: [template] }
    // A substitute for a placeholder may not fit; the file does not contain it.
    if (kinds.has('template') && mended[problem.offset] !== text[problem.offset]) return { problems }
    const mend = mendAt(mended, problem)
    // Only the first comment is reported.
    const isNews = mend === undefined || !['comment', 'quote'].includes(mend.kind) || !kinds.has(mend.kind)
    if (isNews) problems.push(problemOf({ ...problem, found: mended.charAt(problem.offset) }, mend))
    if (mend === undefined) return { problems }
    kinds.add(mend.kind)
    mended = mend.text
    // Quoted text of YAML is one line: a comment in it has no end.
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

/** Cures for a sign in the place of a key. */
const keyCures: Readonly<Record<string, string>> = {
  '{': 'close the object before it with }; several plugins need "plugins": [ { … }, { … } ]',
  '[': 'put a key and a colon before it, or close the object before it with }',
  ']': 'close the object before it with }',
  ':': 'put the key before the colon',
  ',': 'remove one comma, or put an entry between them',
  '}': 'put an entry there, or remove the bracket',
}

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

// Repairs the first problem of a text, so that later problems are found as well. The length stays: places in the
// repaired text are places in the file.

const typographic = '\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb'

/** Literals of Python and Go templates; each as long as JSON's. */
const literals: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' }

/** A repair. `kind`: of some kinds only the first is reported. */
interface Mend {
  readonly kind: 'comma' | 'second-comma' | 'comment' | 'quote' | 'literal' | 'template' | 'mark' | 'rest'
  readonly offset: number
  readonly text: string
  readonly what: string
}

/** Repairs the problem at its offset; undefined if the intention is unclear. */
function mendAt(text: string, { offset, kind }: Pick<JsonProblem, 'offset' | 'kind'>): Mend | undefined {
  const char = text[offset] ?? ''
  const put = (mended: Mend['kind'], what: string, replacement: string, from = offset): Mend => {
    const padded = replacement.padEnd(what.length)
    return { kind: mended, offset: from, what, text: text.slice(0, from) + padded + text.slice(from + what.length) }
  }
  if (char === '\ufeff') return put('mark', char, ' ')
  const comment = /^(?:(?:\/\/|#)[^\n]*|\/\*[\s\S]*?\*\/)/.exec(text.slice(offset))?.[0]
  if (comment !== undefined) return put('comment', comment, comment.replace(/[^\n]/g, ' '))
  // Of {{ the first brace opens an object, and the second is the problem.
  const from = text.startsWith('{{', offset - 1) ? offset - 1 : offset
  const template = placeholderAt(text.slice(from, from + 80))
  if (template !== undefined) return put('template', template, '0', from)
  const quoted = new RegExp(`^[${typographic}'][^\\n${typographic}"']*[${typographic}"']`).exec(text.slice(offset))?.[0]
  if (quoted !== undefined) return put('quote', quoted, `"${quoted.slice(1, -1)}"`)
  if (kind === 'comma-too-many') return put('comma', char, ' ')
  if (char === ',' && /,\s*$/.test(text.slice(0, offset))) return put('second-comma', char, ' ')
  const literal = /^(?:True|False|None)\b/.exec(text.slice(offset))?.[0]
  if (literal !== undefined) return put('literal', literal, literals[literal] ?? 'null')
  const rest = text.slice(offset)
  // A second object is an error; further brackets are removed.
  if (kind === 'more-text' && /^[\]}\s]*$/.test(rest)) return put('rest', rest, rest.replace(/[^\n]/g, ' '))
  const isMissing = kind === 'comma-missing' && /^["{[\d-]/.test(char) && /\s/.test(text[offset - 1] ?? '')
  return isMissing ? put('comma', text[offset - 1] ?? '', ',', offset - 1) : undefined
}

// Files in another format than JSON: one finding.

/** The finding about another format; undefined for a text that may be JSON. */
function otherFormat(text: string): (Found & { readonly offset: number }) | undefined {
  // UTF-16 that was read as UTF-8: every other byte is 0, and the mark is invalid UTF-8.
  if (/^\ufffd{0,2}(?:\0[\t-~]|[\t-~]\0){2}/.test(text)) {
    const message = 'the file is not UTF-8: UTF-16, as Windows tools save it'
    return { id: 'json-syntax', message, cure: 'save it as UTF-8: iconv -f UTF-16 -t UTF-8', offset: 0 }
  }
  return kubernetesObject(text)
}

/** A manifest in YAML. */
function kubernetesObject(text: string): (Found & { readonly offset: number }) | undefined {
  const start = text.slice(0, 4096)
  if (!/^\s*(?:---\s*)?(?:apiVersion|kind):/m.test(start)) return undefined
  const offset = text.search(/\S/)
  if (text.includes('NetworkAttachmentDefinition')) {
    return { id: 'network-attachment', message: 'this is a NetworkAttachmentDefinition in YAML', offset }
  }
  const kind = /^kind:[ \t]*["']?(\w+)/m.exec(start)?.[1] ?? 'manifest'
  const key = /^[ \t]+["']?([\w.-]+)["']?:[ \t]*[|>]/m.exec(text)?.[1]
  const what = key === undefined ? 'the configuration' : `the text of ${key}`
  const cure = `extract ${what}, and examine it`
  return { id: 'json-syntax', message: `this is a ${kind} of Kubernetes in YAML, and no configuration`, cure, offset }
}
