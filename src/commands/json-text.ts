// SPDX-License-Identifier: Apache-2.0
// A JSON text with the places of its keys and values, and the places and reasons where it is not JSON (RFC 8259). The
// parser reads on after an error, so that the rest of the text can be examined.

import {
  findNodeAtLocation,
  getNodeValue,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser'
import { keyPathText, printable, quote } from '../cni/errors.ts'
import { orElse } from './if-there.ts'

/** A key, or an index of a list. */
export type Step = string | number

/** Why the text is not JSON at an offset, in UTF-16 units. */
export interface JsonProblem {
  readonly offset: number
  readonly message: string
  readonly cure: string
}

export interface JsonText {
  /** What could be read of the text; undefined when nothing could. */
  readonly value: unknown
  readonly problems: readonly JsonProblem[]
  /** Keys that an object has twice. */
  readonly duplicates: readonly { readonly offset: number; readonly name: string }[]
  /** The offset of the key at `steps`, or of its value, or of the nearest value around it. Keys match without case. */
  readonly offsetOf: (steps: readonly Step[], isAboutValue?: boolean) => number
}

const mostProblems = 8

export function readJsonText(text: string): JsonText {
  const whole = otherFormat(text)
  if (whole !== undefined) return { value: undefined, problems: [whole], duplicates: [], offsetOf: () => whole.offset }
  const errors: ParseError[] = []
  const root = orElse(() => parseTree(text, errors, { disallowComments: true }), undefined)
  const problems: JsonProblem[] = []
  for (const [at, error] of errors.entries()) {
    const problem = problemOf(text, error, errors[at + 1])
    const { line } = positionOf(text, problem.offset)
    // One mistake makes the parser stumble several times.
    const isNew = problems.every((each) => positionOf(text, each.offset).line !== line)
    if (isNew && problems.length < mostProblems) problems.push(problem)
  }
  const value = root === undefined ? undefined : getNodeValue(root)
  const offsetOf = (steps: readonly Step[], isAboutValue = false) => placeOf(root, steps, isAboutValue)
  return { value, problems, duplicates: duplicatesIn(root), offsetOf }
}

/** The line and column, from 1, of an offset in `text`. */
export function positionOf(text: string, offset: number): { readonly line: number; readonly column: number } {
  const before = text.slice(0, offset)
  return { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') }
}

/** A text that is no JSON from its beginning: only the first problem would be true. */
function otherFormat(text: string): JsonProblem | undefined {
  if (text.startsWith('\ufeff')) {
    return { offset: 0, message: 'the file begins with a byte order mark', cure: 'save it as UTF-8 without BOM' }
  }
  if (/^\ufffd{0,2}(?:\0[\t-~]|[\t-~]\0){2}/.test(text)) {
    const cure = 'save it as UTF-8: iconv -f UTF-16 -t UTF-8'
    return { offset: 0, message: 'the file is not UTF-8: UTF-16, as Windows tools save it', cure }
  }
  const offset = text.search(/\S/)
  if (offset < 0 || /[{[/#]/.test(text[offset] ?? '')) return undefined
  const isManifest = /^(?:---\s*)?(?:apiVersion|kind):/m.test(text.slice(0, 4096))
  const message = isManifest ? 'this is a manifest of Kubernetes in YAML' : 'the text does not begin with {'
  return { offset, message, cure: 'a configuration is one JSON object: { "cniVersion": …, "name": …, … }' }
}

const truncated = 'the file is cut short: write it whole, elsewhere, and move it here in one step'
const comment = 'remove the comment, or keep it as text under a key of its own, like "_comment"'
const noComma = 'put a comma between the entries, or close the object or list'

const messages: Readonly<Record<string, readonly [message: string, cure: string]>> = {
  InvalidCommentToken: ['JSON has no comments', comment],
  UnexpectedEndOfComment: ['JSON has no comments', comment],
  PropertyNameExpected: ['expected a key in double quotes', 'put it in double quotes'],
  ColonExpected: ['expected ":" after the key', 'put a colon between key and value'],
  CommaExpected: ['expected a comma', noComma],
  CloseBraceExpected: ['expected "," or "}"', noComma],
  CloseBracketExpected: ['expected "," or "]"', noComma],
  EndOfFileExpected: [
    'more text after the JSON value',
    'a file holds one object: remove the rest, or make it a file of its own',
  ],
  UnexpectedEndOfString: ['a string has no closing quote on its line', 'add the quote'],
  InvalidEscapeCharacter: ['invalid escape in a string', 'write a backslash as \\\\'],
  InvalidUnicode: ['invalid escape in a string', 'write \\u and four hexadecimal digits'],
  InvalidCharacter: ['a control character in a string', 'remove it, or write it as \\n or \\t'],
}

/** `next`: the parser's error after it; a word that is none of JSON is followed by what was expected there. */
function problemOf(text: string, { error, offset, length }: ParseError, next: ParseError | undefined): JsonProblem {
  const isWord = printParseErrorCode(error) === 'InvalidSymbol'
  const isBeforeNext = next !== undefined && text.slice(offset + length, next.offset).trim() === ''
  const kind = printParseErrorCode(isWord && isBeforeNext ? next.error : error)
  const rest = text.slice(offset)
  const isCut = kind === 'UnexpectedEndOfString' && !rest.includes('\n')
  if (isCut || (rest.trim() === '' && kind !== 'EndOfFileExpected')) {
    return { offset: text.length, message: 'the text ends too early', cure: truncated }
  }
  const comma = /,\s*$/.exec(text.slice(0, offset))
  if (comma !== null && /^[}\]]/.test(rest)) {
    const cure = 'remove the comma: the last entry has none'
    return { offset: comma.index, message: `a comma before "${rest[0]}"`, cure }
  }
  if (comma !== null && rest.startsWith(',')) return { offset, message: 'two commas', cure: 'remove one of them' }
  if (/^(?:#|\/[/*])/.test(rest)) return { offset, message: 'JSON has no comments', cure: comment }
  if (/^[\u2018-\u201e\u00ab\u00bb']/.test(rest)) {
    return { offset, message: `${rest[0]} is no quote of JSON`, cure: 'use double quotes: "' }
  }
  const found = /^[^\s,:{}[\]"]+/.exec(rest)?.[0].slice(0, 40)
  const [message, cure] = messages[kind] ?? [
    'expected a value',
    'use text in double quotes, a number, true, false or null',
  ]
  return { offset, message: found === undefined ? message : `${message}, found ${JSON.stringify(found)}`, cure }
}

function duplicatesIn(node: Node | undefined): JsonText['duplicates'] {
  const found: { offset: number; name: string }[] = []
  const open = node === undefined ? [] : [node]
  for (const each of open) {
    const names = new Set<string>()
    for (const { type, offset, children } of each.children ?? []) {
      const name: unknown = type === 'property' ? children?.[0]?.value : undefined
      if (typeof name !== 'string') continue
      if (names.has(name)) found.push({ offset, name })
      names.add(name)
    }
    for (const child of each.children ?? []) open.push(child)
  }
  return found
}

function placeOf(root: Node | undefined, steps: readonly Step[], isAboutValue: boolean): number {
  let node = root
  for (const step of steps) {
    const next = node === undefined ? undefined : (findNodeAtLocation(node, [step]) ?? withoutCase(node, step))
    if (next === undefined) return node?.offset ?? 0
    node = next
  }
  const isMember = node?.parent?.type === 'property'
  return (isMember && !isAboutValue ? node?.parent?.offset : node?.offset) ?? 0
}

/** Go's decoder matches keys without case. */
function withoutCase(node: Node, step: Step): Node | undefined {
  const member = node.children?.find(({ type, children }) => {
    return type === 'property' && String(children?.[0]?.value).toLowerCase() === String(step).toLowerCase()
  })
  return member?.children?.[1]
}

/** `plugins[0].ipam.subnet`, control characters escaped. */
export function keyPathOf(steps: readonly Step[]): string {
  return printable(keyPathText(steps)).replaceAll('\n', '\\n')
}

export function shown(value: unknown): string {
  return printable(quote(value))
}
