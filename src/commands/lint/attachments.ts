// SPDX-License-Identifier: Apache-2.0
// Configurations in NetworkAttachmentDefinitions: each is examined like a file, and shown at its place.

import { isMap, isScalar, isSeq, parseAllDocuments, type Scalar, type YAMLMap } from 'yaml'
import type { Finding } from '../findings.ts'
import { type FileLint, lintText } from './file.ts'
import { type Found, findingAt } from './finding.ts'
import type { Programs } from './programs.ts'
import { unrendered } from './templates.ts'

/** Looks at a file: a configuration, or definitions that contain configurations. */
export function lintFile(file: string, text: string, programs: Programs): readonly FileLint[] {
  const found = attachmentsIn(text)
  if (found === undefined) return [lintText(file, text, programs)]
  const problems = found.problems.map((each) => findingAt(file, text, each))
  const lints = found.attachments.map((each) => lintAttachment(each, { file, text, programs }))
  const [first = { file, findings: [] }, ...more] = lints
  // The finding about the plugins' directory is reported once.
  const others = more.map((each) => ({ ...each, findings: each.findings.filter(({ id }) => id !== 'bin-dir-missing') }))
  return [{ ...first, findings: [...problems, ...first.findings] }, ...others]
}

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
  readonly offset: number
  /** `none`: no spec.config, so Multus reads a file with the definition's name; `no-text`: spec.config is not text. */
  readonly config: ConfigText | 'none' | 'no-text'
}

interface ConfigText {
  readonly text: string
  /** The place of a character in the file. */
  readonly offsetOf: (at: number) => number
}

/** The definitions of a file, and a problem of each document that is not YAML, or the template that causes them. */
interface AttachmentsRead {
  readonly attachments: readonly Attachment[]
  readonly problems: readonly (Found & { readonly offset: number })[]
}

/** Undefined if the text has no definition. */
function attachmentsIn(text: string): AttachmentsRead | undefined {
  if (!text.includes('NetworkAttachmentDefinition')) return undefined
  const whole = withWholeQuotes(text)
  const documents = [parseAllDocuments(whole, { uniqueKeys: false, logLevel: 'silent', prettyErrors: false })].flat()
  const sound = documents.filter(({ errors }) => errors.length === 0)
  const attachments = sound.flatMap(({ contents }) => itemsOf(contents)).map((item) => attachmentOf(item, whole))
  if (attachments.length === 0 && !/^[\s-]*(?:apiVersion|kind):/m.test(text)) return undefined
  if (sound.length === documents.length) return { attachments, problems: [] }
  const template = unrendered(text)
  if (template !== undefined) return { attachments, problems: [template] }
  // Later errors of a document follow from its first.
  const firsts = documents.flatMap(({ errors }) => errors.toSorted((a, b) => a.pos[0] - b.pos[0]).slice(0, 1))
  return { attachments, problems: firsts.map(({ message, pos }) => ({ id: 'yaml-syntax', message, offset: pos[0] })) }
}

/** A key with quoted text. */
const quoted = /^[ \t-]*[\w./-]+:[ \t]+(?:'(?:[^']|'')*'|"(?:[^"\\]|\\[\s\S])*")/gm

/**
 * Quoted text over several lines on one line, of the same length. For libyaml and go-yaml, and so for kubectl, it ends
 * at its closing quote; YAML 1.2 wants its lines deeper than the key (7.3.1), which many definitions are not.
 */
function withWholeQuotes(text: string): string {
  const documents = text.split(/^(?=---(?:\s|$))/m)
  // In double quotes a backslash at the end of a line joins it with the next one.
  const lineEnd = (key: string) => (key.endsWith('"') ? /\\?\r?\n/g : /\r?\n/g)
  const oneLine = (key: string) => key.replace(lineEnd(key), (found) => ' '.repeat(found.length))
  return documents.map((document) => document.replace(quoted, oneLine)).join('')
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
  const about = { name: typeof name === 'string' ? name : undefined, offset }
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
