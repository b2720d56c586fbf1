// SPDX-License-Identifier: Apache-2.0
// `trestle convert`: prints the list with one trestle in place of the upstream plugins on stdout, and remarks on
// stderr.

import { type Command, exitCode, type Input } from '../shell/command.ts'
import { jsonText, print } from '../shell/output.ts'
import { readFileAs } from '../shell/read-input.ts'
import type { Remark } from './conflist.ts'
import { convert } from './conflist.ts'

export const convertCommand: Command = {
  name: 'convert',
  words: '[FILE]',
  maxWords: 1,
  summary: 'convert a list of upstream plugins into a list with trestle',
  description: [
    'Reads a .conflist of bridge, ptp or macvlan with host-local or static, portmap, firewall, bandwidth, tuning',
    'and sbr (standard input without FILE) and prints a list with one trestle in their place. The new list spells out',
    "defaults that differ from trestle's, merges capabilities, and keeps other plugins after trestle. Behind a plugin",
    'that stays, like flannel or calico, one chained trestle replaces the rest. Remarks go to standard error. Exit',
    'code 1: a remark is a warning, and a part of the original has no effect any more. Then `trestle adopt` takes',
    'over live pods.',
  ].join('\n'),
  options: {},
  examples: [
    'trestle convert /etc/cni/net.d/10-bridge.conflist >10-trestle.conflist',
    'trestle convert -o json <10-bridge.conflist',
  ],
  run,
}

function run(input: Input): number {
  const { words, isJson, output } = input
  const { conflist, remarks } = readFileAs(words[0] ?? '-', convert)
  const code = remarks.some(({ level }) => level === 'warning') ? exitCode.findings : exitCode.fine
  print(input, { command: 'convert', document: { conflist, remarks }, text: jsonText(conflist), code })
  if (!isJson) output.err(remarks.map(remarkText).join(''))
  return code
}

function remarkText({ level, about, text }: Remark): string {
  return `${level}: ${about}: ${text}\n`
}

// Numbers beyond JavaScript's precision, kept as text: a rate of Go's uint64 keeps its digits, also in a plugin that
// stays in the list.

/**
 * JSON.parse with source texts, and JSON.rawJSON (TC39 proposal "JSON.parse source text access"): not in lib.d.ts yet.
 */
interface ExactJson {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown
  rawJSON(text: string): unknown
}

const exactJson = JSON as unknown as ExactJson

/** A number with its JSON text, which toString and JSON.stringify return. */
class ExactNumber extends Number {
  readonly #text: string

  constructor(text: string) {
    super(text)
    this.#text = text
  }

  override toString(): string {
    return this.#text
  }

  toJSON(): unknown {
    return exactJson.rawJSON(this.#text)
  }
}

/**
 * The JSON value of `text`, with an ExactNumber for each number beyond 2^53 or the range of a double. Throws
 * SyntaxError for invalid JSON.
 */
export function parseExactly(text: string): unknown {
  return exactJson.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && isInexact(value) ? new ExactNumber(source) : value,
  )
}

function isInexact(value: number): boolean {
  return !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))
}
