// SPDX-License-Identifier: Apache-2.0
// Errors of YAML texts in plain words.

import { CST, Lexer, type YAMLParseError } from 'yaml'
import { shown } from './json.ts'

export interface YamlProblem {
  readonly message: string
  readonly cure?: string
  readonly offset: number
}

export function unclosedQuote(text: string, offset: number): YamlProblem {
  const quote = text[offset] ?? ''
  const cure = `close it with ${quote} after the text; ${quote === '"' ? '\\" is' : "'' is"} one inside of it`
  return { message: `the text that begins with ${quote} here is not closed`, cure, offset }
}

/** The first error of a document in plain words; `text`: of the whole file. */
export function problemOf({ code, message, pos: [offset] }: YAMLParseError, text: string): YamlProblem {
  const there = shown(text.slice(offset).trimStart().slice(0, 12).split('\n')[0])
  const known: Readonly<Partial<Record<typeof code, string>>> = {
    TAB_AS_INDENT: 'a tab is in the indent: YAML takes blanks only',
    BAD_INDENT: 'the indent fits no line above it',
    BAD_SCALAR_START: `${shown(text[offset])} begins a text: it has to be in quotes`,
    BAD_DQ_ESCAPE: `${shown(text.slice(offset, offset + 2))} is nothing in double quotes: use single ones`,
    BLOCK_AS_IMPLICIT_KEY: `a second ": " is on one line: text that has it needs quotes`,
    MULTILINE_IMPLICIT_KEY: `there is no ":" behind the key at ${there}, or a value above it goes on`,
    MISSING_CHAR: `a ":", a comma or a bracket is missing at ${there}`,
    UNEXPECTED_TOKEN: `${there} does not belong here`,
    BLOCK_IN_FLOW: `${there} stands inside of { } or [ ], where - and indents mean nothing`,
  }
  return { message: known[code] ?? message.split('\n')[0] ?? '', offset }
}

// Quoted text of YAML over several lines ends at its closing quote for libyaml and go-yaml, and so for kubectl,
// whatever the indent. YAML 1.2 requires an indent deeper than the key (7.3.1), which many definitions of Multus lack.

/** A text, and the places of quotes without an end: one in a document. */
interface Quotes {
  /** As long as the original: places in it are places in the file. */
  readonly text: string
  readonly unclosed: readonly number[]
}

/** Each such text costs a scan of the document. */
const mostTexts = 200

const ends = { "'": /'[^']*(?:''[^']*)*'/y, '"': /"[^"\\]*(?:\\[\s\S][^"\\]*)*"/y } as const

/** Puts each quoted text with a too small indent on one line: line ends become blanks. */
export function withWholeQuotes(text: string): Quotes {
  const unclosed: number[] = []
  let whole = ''
  for (const document of text.split(/^(?=---(?:\s|$))/m)) {
    const read = inDocument(document)
    if (read.unclosed !== undefined) unclosed.push(whole.length + read.unclosed)
    whole += read.text
  }
  return { text: whole, unclosed }
}

function inDocument(text: string): { readonly text: string; readonly unclosed?: number } {
  let whole = text
  for (let turn = 0; turn < mostTexts; turn++) {
    const from = cutQuote(whole)
    if (from === undefined) return { text: whole }
    const quoted = quotedAt(whole, from)
    if (quoted === undefined) return { text: whole, unclosed: from }
    whole = whole.slice(0, from) + onOneLine(quoted) + whole.slice(from + quoted.length)
  }
  return { text: whole }
}

/** The beginning of the first quoted text that YAML 1.2 ends before its closing quote. */
function cutQuote(text: string): number | undefined {
  let at = 0
  for (const lexeme of new Lexer().lex(text)) {
    const quote = lexeme[0] ?? ''
    if (isQuoted(lexeme) && (lexeme.length === 1 || !lexeme.endsWith(quote))) return at
    // Marks of the lexer have no text.
    if (![CST.DOCUMENT, CST.FLOW_END, CST.SCALAR].includes(lexeme)) at += lexeme.length
  }
  return undefined
}

function isQuoted(lexeme: string): boolean {
  const type = CST.tokenType(lexeme)
  return type === 'single-quoted-scalar' || type === 'double-quoted-scalar'
}

/** From the quote at `from` to its closing quote; undefined if the document ends before. */
function quotedAt(text: string, from: number): string | undefined {
  const end = ends[text[from] as keyof typeof ends]
  end.lastIndex = from
  const quoted = end.exec(text)?.[0]
  return quoted === undefined || /\n(?:---|\.\.\.)(?:\s|$)/.test(quoted) ? undefined : quoted
}

function onOneLine(quoted: string): string {
  // In double quotes a backslash at the end of a line joins it with the next one.
  const lineEnd = quoted.startsWith('"') ? /\\?\r?\n/g : /\r?\n/g
  return quoted.replace(lineEnd, (found) => ' '.repeat(found.length))
}
