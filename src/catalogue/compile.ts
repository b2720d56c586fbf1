// SPDX-License-Identifier: Apache-2.0
// The catalogue's YAML files as the two files that the executable reads: texts, and patterns. Part of the build.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { Wordings } from './diagnosis.ts'

/** A record of a YAML file. `patterns`: where a wording was seen, and the wording. */
interface CatalogueRecord extends Readonly<Record<string, unknown>> {
  readonly id: string
  readonly patterns?: readonly Readonly<Record<string, string>>[]
  readonly retold?: readonly string[]
  readonly unless?: readonly string[]
  /** Errors of trestle with this code. */
  readonly ids?: readonly CatalogueRecord[]
}

/** The files in their order: of two errors with the same words in a text the earlier family's counts. */
const order = [
  ...['doctor', 'errors', 'lint'],
  ...['pod-machines', 'calico', 'cilium', 'istio-and-linkerd', 'networks', 'clouds', 'devices', 'interfaces'],
  ...['libcni', 'programs', 'packet-filter', 'addresses', 'kernel', 'limits', 'api-server', 'cri'],
]

/** The records of all files of a directory, each with the name of its file as `family`. */
export function readRecords(directory = import.meta.dirname): readonly CatalogueRecord[] {
  const names = readdirSync(directory).filter((name) => /\.yaml$/.test(name))
  const families = names.map((name) => name.slice(0, name.indexOf('.')))
  const stranger = families.find((family) => !order.includes(family))
  if (stranger !== undefined) throw new Error(`${stranger}.yaml has no place in the order of families (compile.ts)`)
  const all = families
    .toSorted((a, b) => order.indexOf(a) - order.indexOf(b))
    .flatMap((family) => {
      const records = parse(readFileSync(join(directory, `${family}.yaml`), 'utf8')) as CatalogueRecord[]
      return records.flatMap(withIds).map((each) => ({ ...each, family }))
    })
  return [...all, ...readEvents(directory)]
}

/** Events of trestle's agent, a line each: reason, meaning, cause and cure. The id is `agent-` and the reason. */
function readEvents(directory: string): readonly CatalogueRecord[] {
  const [, ...lines] = readFileSync(join(directory, 'agent.tsv'), 'utf8').trim().split('\n')
  return lines.map((line) => {
    const [event = '', meaning, cause, cure] = line.split('\t')
    const id = `agent-${event.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase()}`
    const patterns = [{ printed: `\\b${event}\\b` }]
    return {
      id,
      family: 'agent',
      severity: 'warning',
      group: 'agents',
      program: 'trestle agent',
      meaning,
      causes: [cause],
      cure,
      patterns,
    }
  })
}

/** An error of trestle stands below its code, and has the code's meaning. One cause needs no list. */
function withIds({ ids = [], ...record }: CatalogueRecord): readonly CatalogueRecord[] {
  const { code, meaning } = record as Readonly<Record<string, unknown>>
  const all: readonly CatalogueRecord[] = [record, ...ids.map((each) => ({ code, meaning, ...each }))]
  return all.map((each) => ({ ...each, causes: [each['causes']].flat() }))
}

/** The text of each built file, by its name. */
export function compile(): Readonly<Record<'diagnoses.json' | 'patterns.json', string>> {
  const records = readRecords()
  const texts = records.map(({ patterns: _, retold: __, unless: ___, ...text }) => ({ look: [], ...text }))
  const wordings = records.flatMap(({ id, patterns, retold, unless }): readonly Wordings[] => {
    if (patterns === undefined) return []
    const optional = { ...(retold && { retold: anyOf(retold) }), ...(unless && { unless: anyOf(unless) }) }
    return [{ id, pattern: anyOf(patterns.flatMap(Object.values)), ...optional }]
  })
  return { 'diagnoses.json': JSON.stringify(texts), 'patterns.json': JSON.stringify(wordings) }
}

function anyOf(patterns: readonly string[]): string {
  return patterns.map(anySpace).join('|')
}

/** Escapes and classes of a pattern, a blank in it, and one behind a colon or comma. */
const blanks = /\\.|\[(?:\\.|[^\]\\])*\]|\(\?[:=!<]|([:,])? (?![?*+{])/g

/**
 * The pattern with each blank standing for any white space: pasted texts are wrapped, and columns aligned. Beside a
 * colon or a comma, and before a bracket, there may be none, or some more: languages differ.
 */
function anySpace(pattern: string): string {
  return pattern.replace(blanks, (part: string, mark: string | undefined, at: number) => {
    if (part.startsWith('[')) return part.replaceAll(' ', '\\s')
    if (!/^[:,]? $/.test(part)) return part
    // A blank that may be none would let a refusal behind it look at the blank itself.
    const isRefused = pattern.startsWith('(?!', at + part.length)
    if (/^\\[([]/.test(pattern.slice(at + part.length))) return `${mark ?? ''}\\s*`
    return mark === undefined ? '\\s+' : `\\s?${mark}\\s${isRefused ? '+' : '*'}`
  })
}
