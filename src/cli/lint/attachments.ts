// SPDX-License-Identifier: Apache-2.0
// Configurations in NetworkAttachmentDefinitions: each is examined like a file, and shown at its place.

import {
  CST,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  type Node,
  parseAllDocuments,
  type Scalar,
  visit,
  type YAMLMap,
  type YAMLParseError,
} from 'yaml'
import type { Finding } from '../shell/findings.ts'
import { type FileLint, lintText } from './file.ts'
import { type Found, findingAt, shown } from './finding.ts'
import type { Programs } from './programs.ts'
import { type Directive, directiveInYaml, unrendered } from './templates.ts'

/** Looks at a file: a configuration, or definitions that contain configurations. */
export function lintFile(file: string, text: string, programs: Programs): readonly FileLint[] {
  const found = attachmentsIn(text)
  if (found === undefined) return [lintText(file, text, programs)]
  const faults = found.problems.map((each) => findingAt(file, text, { id: 'yaml-syntax', ...each }))
  const problems = found.template === undefined ? faults : [findingAt(file, text, unrendered(found.template))]
  const lints = found.attachments.map((each) => lintAttachment(each, { file, text, programs }))
  const [first = { file, findings: [] }, ...more] = lints
  // The finding about the plugins' directory is reported once.
  const others = more.map((each) => ({ ...each, findings: each.findings.filter(({ id }) => id !== 'bin-dir-missing') }))
  const unnamed = problems.length > 0 ? [] : found.attachments.filter(({ hasName }) => !hasName)
  const nameless = unnamed.map(({ offset }) => findingAt(file, text, { ...noName, offset }))
  return [{ ...first, findings: [...problems, ...nameless, ...first.findings] }, ...others]
}

const noName: Found = { id: 'attachment-unnamed', message: 'the definition has no metadata.name' }

interface About {
  readonly file: string
  readonly text: string
  readonly programs: Programs
}

function lintAttachment({ name, offset, config }: Attachment, about: About): FileLint {
  const { file, text, programs } = about
  if (config === 'none') {
    const message = `${name ?? 'the definition'} has no spec.config: Multus takes the file of the network of that name`
    const found: Found = { id: 'attachment-config', severity: 'note', message, cure: 'nothing, where that is meant' }
    return { file, findings: [findingAt(file, text, { ...found, offset })] }
  }
  if (config === 'no-text') {
    const message = `spec.config of ${name ?? 'the definition'} is an object, and has to be text with JSON in it`
    return { file, findings: [findingAt(file, text, { id: 'attachment-config', message, offset })] }
  }
  // The name `-` leaves the form to the keys of the text.
  const lint = lintText('-', config.text, programs)
  // Multus gives the definition's name to a configuration without one.
  const own = lint.findings.filter(({ id, message }) => !(id === 'name-missing' && message.endsWith('has no name')))
  return { ...lint, file, findings: own.map((finding) => placedIn(finding, config, about)) }
}

function placedIn(finding: Finding, config: ConfigText, { file, text }: About): Finding {
  const { id, message, cause, cure, severity, line, column } = finding
  if (line === undefined || column === undefined) return { ...finding, on: file, file }
  const lines = config.text.split('\n')
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0)
  const offset = config.offsetOf(before + column - 1)
  return findingAt(file, text, { id, message, cause, cure, severity, offset })
}

// Reads definitions as kubectl takes and prints them: YAML or JSON, several documents, lists. Each character of
// spec.config keeps its place in the file.

/** Offsets are places in the file. */
interface Attachment {
  /** metadata.name: Multus gives it to a configuration without one. */
  readonly name: string | undefined
  /** A name, or a generateName. */
  readonly hasName: boolean
  readonly offset: number
  /** `none`: no spec.config, so Multus reads a file with the definition's name; `no-text`: spec.config is not text. */
  readonly config: ConfigText | 'none' | 'no-text'
}

interface ConfigText {
  readonly text: string
  /** The place of a character in the file. */
  readonly offsetOf: (at: number) => number
}

/**
 * The definitions of a file, and one problem of each document that is not YAML. `template`: the directive that causes
 * these problems.
 */
interface AttachmentsRead {
  readonly attachments: readonly Attachment[]
  readonly problems: readonly YamlProblem[]
  readonly template?: Directive
}

/** Undefined if the text has no definition. */
function attachmentsIn(text: string): AttachmentsRead | undefined {
  if (!text.includes('NetworkAttachmentDefinition')) return undefined
  const { text: whole, unclosed } = withWholeQuotes(text)
  const documents = [parseAllDocuments(whole, { uniqueKeys: false, logLevel: 'silent', prettyErrors: false })].flat()
  const sound = documents.filter((each) => each.errors.length === 0 && !hasObjectAsKey(each))
  const attachments = sound.flatMap(({ contents }) => itemsOf(contents)).map((item) => attachmentOf(item, whole))
  if (attachments.length === 0 && !/^[\s-]*(?:apiVersion|kind):/m.test(text)) return undefined
  const template = directiveInYaml(text)
  if (template !== undefined && sound.length < documents.length) return { attachments, problems: [], template }
  if (unclosed.length > 0) return { attachments, problems: unclosed.map((offset) => unclosedQuote(text, offset)) }
  // Later errors of a document follow from its first.
  const firsts = documents.flatMap(({ errors }) => errors.toSorted((a, b) => a.pos[0] - b.pos[0]).slice(0, 1))
  return { attachments, problems: firsts.map((error) => problemOf(error, whole)) }
}

/** `name: {{ .name }}` is YAML, an object with an object as its key, and Go reads no such object. */
function hasObjectAsKey({ contents }: { readonly contents: Node | null }): boolean {
  let hasOne = false
  visit(contents, {
    Pair: (_, { key }) => {
      hasOne ||= isMap(key)
    },
  })
  return hasOne
}

function itemsOf(contents: unknown): readonly YAMLMap[] {
  if (!isMap(contents)) return []
  if (contents.get('kind') === 'NetworkAttachmentDefinition') return [contents]
  const items = contents.get('items')
  return isSeq(items) ? items.items.flatMap(itemsOf) : []
}

function attachmentOf(item: YAMLMap, text: string): Attachment {
  const name = item.getIn(['metadata', 'name'])
  const node = item.getIn(['spec', 'config'], true)
  const offset = item.range?.[0] ?? 0
  const hasName = [name, item.getIn(['metadata', 'generateName'])].some((each) => (each ?? '') !== '')
  const about = { name: typeof name === 'string' ? name : undefined, hasName, offset }
  if (node === undefined || (isScalar(node) && (node.value === null || node.value === ''))) {
    return { ...about, config: 'none' }
  }
  if (!isScalar(node) || typeof node.value !== 'string') {
    const from = (node as Scalar).range?.[0] ?? offset
    return { ...about, offset: from, config: 'no-text' }
  }
  return { ...about, config: textIn(node as Scalar<string>, text) }
}

function textIn({ value, range, type }: Scalar<string>, text: string): ConfigText {
  const [from, to] = [range?.[0] ?? 0, range?.[1] ?? 0]
  const isBlock = type === 'BLOCK_LITERAL' || type === 'BLOCK_FOLDED'
  // The first line of a block holds | or > and its chomping.
  const start = isBlock ? text.indexOf('\n', from) + 1 : from
  const places = placesOf(value, text.slice(start, to), type === 'QUOTE_DOUBLE')
  return { text: value, offsetOf: (at) => start + (places[Math.min(at, places.length - 1)] ?? 0) }
}

/** The place of each character of a value in the source, past indents, quotes and backslashes of YAML. */
function placesOf(value: string, source: string, hasEscapes: boolean): readonly number[] {
  let at = 0
  return [...value].flatMap((char) => {
    while (at < source.length && !isSame(char, source, at, hasEscapes)) at++
    const place = at
    at += hasEscapes && /^\\[nt]/.test(source.slice(at, at + 2)) && /\s/.test(char) ? 2 : 1
    return char.length === 2 ? [place, place + 1] : [place]
  })
}

function isSame(char: string, source: string, at: number, hasEscapes: boolean): boolean {
  const there = source[at]
  if (there === char[0]) return true
  // A line end in folded text is a blank of its value.
  if (char === ' ') return there === '\n'
  return (
    hasEscapes && there === '\\' && (char === '\n' ? source[at + 1] === 'n' : char === '\t' && source[at + 1] === 't')
  )
}

// Errors of YAML texts in plain words.

export interface YamlProblem {
  readonly message: string
  readonly cure?: string
  readonly offset: number
}

function unclosedQuote(text: string, offset: number): YamlProblem {
  const quote = text[offset] ?? ''
  const cure = `close it with ${quote} after the text; ${quote === '"' ? '\\" is' : "'' is"} one inside of it`
  return { message: `the text that begins with ${quote} here is not closed`, cure, offset }
}

/** The first error of a document in plain words; `text`: of the whole file. */
function problemOf({ code, message, pos: [offset] }: YAMLParseError, text: string): YamlProblem {
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
function withWholeQuotes(text: string): Quotes {
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
