// SPDX-License-Identifier: Apache-2.0
// NetworkAttachmentDefinitions in a file, as kubectl takes and prints them: YAML or JSON, several documents, lists. Of
// each the text in spec.config, with the place that each of its characters has in the file.

import { isMap, isScalar, isSeq, parseAllDocuments, type Scalar, type YAMLMap } from 'yaml'

/** One definition. Offsets are places in the file. */
export interface Attachment {
  /** metadata.name: Multus gives it to a configuration without one. */
  readonly name: string | undefined
  /** Whether it has one, or the API server is to make one. */
  readonly hasName: boolean
  readonly offset: number
  /** `none`: no spec.config, so Multus takes a file of that name; `no-text`: something else than text. */
  readonly config: ConfigText | 'none' | 'no-text'
}

/** The text of a configuration inside of another. */
export interface ConfigText {
  readonly text: string
  /** Where a character of it stands in the file. */
  readonly offsetOf: (at: number) => number
}

/** What keeps a file from being YAML. */
export interface YamlProblem {
  readonly message: string
  readonly offset: number
}

/** What is in the text; undefined when it holds no definition. */
export function attachmentsIn(
  text: string,
): { readonly attachments: readonly Attachment[]; readonly problems: readonly YamlProblem[] } | undefined {
  if (!text.includes('NetworkAttachmentDefinition')) return undefined
  const documents = [parseAllDocuments(text, { uniqueKeys: false, logLevel: 'silent', prettyErrors: false })].flat()
  const attachments = documents.flatMap(({ contents }) => itemsOf(contents)).map((item) => attachmentOf(item, text))
  const problems = documents.flatMap(({ errors }) => errors.map(({ message, pos }) => ({ message, offset: pos[0] })))
  if (attachments.length === 0 && !/^[\s-]*(?:apiVersion|kind):/m.test(text)) return undefined
  return { attachments, problems }
}

/** The definitions among a resource, or the items of a list of resources. */
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
  // The first line of a block holds | or > and how its ends are treated.
  const start = isBlock ? text.indexOf('\n', from) + 1 : from
  const places = placesOf(value, text.slice(start, to), type === 'QUOTE_DOUBLE')
  return { text: value, offsetOf: (at) => start + (places[Math.min(at, places.length - 1)] ?? 0) }
}

/** For each character of a value its place in the source: indents, quotes and backslashes of YAML are passed over. */
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
  // A line end inside of a folded text is a blank of its value.
  if (char === ' ') return there === '\n'
  return (
    hasEscapes && there === '\\' && (char === '\n' ? source[at + 1] === 'n' : char === '\t' && source[at + 1] === 't')
  )
}
