// SPDX-License-Identifier: Apache-2.0
// Configurations in NetworkAttachmentDefinitions: each is examined like a file, and shown at its place.

import { isMap, isScalar, isSeq, type Node, parseAllDocuments, type Scalar, visit, type YAMLMap } from 'yaml'
import type { Finding } from '../shell/findings.ts'
import { type FileLint, lintText } from './file.ts'
import { type Found, findingAt } from './finding.ts'
import type { Programs } from './programs.ts'
import { type Directive, directiveInYaml, unrendered } from './templates.ts'
import { problemOf, unclosedQuote, withWholeQuotes, type YamlProblem } from './yaml.ts'

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
