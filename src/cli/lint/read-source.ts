// SPDX-License-Identifier: Apache-2.0
// The text of a file as one JSON object, or what keeps it from being one, in a plain sentence with its place.

import { parseConfig } from '../../cni/config-json.ts'
import { toCniError } from '../../cni/error.ts'
import { findJsonProblem } from '../../cni/json-problem.ts'
import { type Finding, type Found, findingAt, findingIn, findingOf, type Source, sourceOf } from './finding.ts'
import { keyPathOf } from './key-path.ts'

export interface ReadSource {
  /** Absent when it is no JSON object. */
  readonly source?: Source
  readonly findings: readonly Finding[]
}

/** Reads a text; `file` is what findings call it. */
export function readSource(file: string, text: string): ReadSource {
  if (text.trim() === '')
    return { findings: [findingIn(file, { id: 'file-empty', message: 'there is nothing in it' })] }
  const found = syntaxProblem(text)
  if (found !== undefined) return { findings: [findingAt(file, text, found)] }
  try {
    const source = sourceOf(file, text, parseConfig(text))
    return { source, findings: source.places.duplicates.map((each) => findingOf(source, duplicate(each))) }
  } catch (thrown) {
    const message = toCniError(thrown).message.replace(/^error unmarshall network config: /, '')
    return { findings: [findingAt(file, text, { id: 'not-an-object', message, offset: text.search(/\S/) })] }
  }
}

function syntaxProblem(text: string): (Found & { readonly offset: number }) | undefined {
  if (text.startsWith('\ufeff')) {
    const message = 'the file begins with a byte order mark, which JSON does not have'
    return { id: 'json-syntax', message, cure: 'save it as UTF-8 without BOM', offset: 0 }
  }
  const problem = findJsonProblem(text)
  if (problem === undefined) return undefined
  return { id: 'json-syntax', message: problem.problem, offset: problem.offset, cure: cureOf(problem.problem) }
}

/** Words of json-problem.ts, and what to do about each. */
const cures: readonly (readonly [RegExp, string])[] = [
  [/^a comma before/, 'remove the comma: the last entry has none'],
  [/^expected "," or/, 'put a comma between the entries, or close the object or list'],
  [/the text ends/, 'the file is cut short: write it whole, elsewhere, and move it here in one step'],
  [/no comments/, 'remove the comment, or keep it as text under a key of its own, like "_comment"'],
  [/double quotes/, 'put it in double quotes'],
  [/^more text after/, 'a file holds one object: remove the rest, or make it a file of its own'],
]

function cureOf(problem: string): string | undefined {
  return cures.find(([pattern]) => pattern.test(problem))?.[1]
}

function duplicate({ offset, steps }: { offset: number; steps: readonly (string | number)[] }): Found {
  return { id: 'duplicate-key', message: `${keyPathOf(steps)} is there twice`, offset }
}
