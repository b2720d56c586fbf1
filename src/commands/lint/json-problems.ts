// SPDX-License-Identifier: Apache-2.0
// Where and why a text is not JSON (RFC 8259). JSON.parse says neither reliably; this reads the
// text again, only after JSON.parse has refused it.

type Kind = 'comma-too-many' | 'comma-missing' | 'cut-short' | 'comment' | 'not-quoted' | 'more-text' | 'other'

/** Thrown and caught in this file only. */
interface Found {
  readonly offset: number
  readonly kind: Kind
  readonly problem: string
}

/** The first thing that is wrong. Line and column count from 1; the column is in UTF-16 units. */
export interface JsonProblem extends Found {
  readonly line: number
  readonly column: number
}

const space = /[ \t\r\n]*/y
const stringToken = /"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const scalarToken = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y
const wordEnd = /[A-Za-z0-9_.+-]/

function match(token: RegExp, text: string, at: number): number {
  token.lastIndex = at
  const found = token.exec(text)
  return found === null ? -1 : at + found[0].length
}

function skipSpace(text: string, at: number): number {
  return match(space, text, at)
}

function stop(offset: number, kind: Kind, problem: string): never {
  throw { offset, kind, problem } satisfies Found
}

/** `kind`: of the problem where the text goes on. */
function expected(text: string, at: number, { what, kind = 'other' }: { what: string; kind?: Kind }): never {
  const char = text[at]
  if (char !== undefined) return stop(at, kind, `expected ${what}, found ${JSON.stringify(char)}`)
  return stop(at, kind === 'comma-missing' ? kind : 'cut-short', `expected ${what}, but the text ends`)
}

/** Where a string that starts at `at` goes wrong. */
function badString(text: string, at: number): never {
  for (let i = at + 1; i < text.length; i++) {
    const char = text[i]
    if (char === '\\') {
      if (!/^(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.test(text.slice(i + 1, i + 6)))
        return stop(i, 'other', 'invalid escape in a string')
      i++
    } else if (char !== undefined && char < ' ') {
      const what = char === '\n' ? 'a string has no closing quote on its line' : 'a control character in a string'
      return stop(i, 'other', what)
    }
  }
  return stop(text.length, 'cut-short', 'the text ends inside a string')
}

function skipString(text: string, at: number): number {
  const end = match(stringToken, text, at)
  return end < 0 ? badString(text, at) : end
}

function skipScalar(text: string, at: number): number {
  if (text[at] === '"') return skipString(text, at)
  if (text[at] === "'") return stop(at, 'not-quoted', 'strings use double quotes')
  if (text[at] === '\ufeff') return stop(at, 'other', 'a byte order mark, which JSON does not have')
  if (text[at] === '/' || text[at] === '#') return stop(at, 'comment', 'JSON has no comments')
  const end = match(scalarToken, text, at)
  if (end < 0 || wordEnd.test(text[end] ?? '')) return expected(text, at, { what: 'a value' })
  return end
}

/** After `{` or a comma in an object: past the key and its colon. */
function skipKey(text: string, at: number): number {
  if (text[at] !== '"') return expected(text, at, { what: 'a key in double quotes', kind: 'not-quoted' })
  const colon = skipSpace(text, skipString(text, at))
  if (text[colon] !== ':') return expected(text, colon, { what: '":" after the key' })
  return skipSpace(text, colon + 1)
}

/** After a value: closes what it ends. The result is where the next value starts, or the end. */
function afterValue(text: string, from: number, open: string[]): { readonly at: number; readonly isEnd: boolean } {
  let at = skipSpace(text, from)
  while (open.length > 0) {
    const closer = open.at(-1) === '{' ? '}' : ']'
    if (text[at] === ',') {
      const next = skipSpace(text, at + 1)
      if (text[next] === closer) return stop(at, 'comma-too-many', `a comma before "${closer}"`)
      return { at: closer === '}' ? skipKey(text, next) : next, isEnd: false }
    }
    if (text[at] !== closer) return expected(text, at, { what: `"," or "${closer}"`, kind: 'comma-missing' })
    open.pop()
    at = skipSpace(text, at + 1)
  }
  if (at < text.length) return stop(at, 'more-text', 'more text after the JSON value')
  return { at, isEnd: true }
}

function scan(text: string): void {
  const open: string[] = []
  let at = skipSpace(text, 0)
  for (;;) {
    const char = text[at]
    let end = at
    if (char === '{' || char === '[') {
      const inside = skipSpace(text, at + 1)
      if (text[inside] !== (char === '{' ? '}' : ']')) {
        open.push(char)
        at = char === '{' ? skipKey(text, inside) : inside
        continue
      }
      end = inside + 1
    } else end = skipScalar(text, at)
    const next = afterValue(text, end, open)
    if (next.isEnd) return
    at = next.at
  }
}

/** The line and column, from 1, of an offset in `text`. */
export function positionOf(text: string, offset: number): { readonly line: number; readonly column: number } {
  const before = text.slice(0, offset)
  const lastBreak = before.lastIndexOf('\n')
  return { line: before.split('\n').length, column: offset - lastBreak }
}

/** What is wrong with `text` as JSON, or undefined when nothing is. Iterative: depth costs no stack. */
export function findJsonProblem(text: string): JsonProblem | undefined {
  try {
    scan(text)
    return undefined
  } catch (thrown) {
    const found = thrown as Found
    if (typeof found.offset !== 'number') throw thrown
    return { ...found, ...positionOf(text, found.offset) }
  }
}
