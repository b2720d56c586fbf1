// SPDX-License-Identifier: Apache-2.0
// The catalogue's YAML files as the two files that the executable reads: texts, and patterns. Part of the build.

import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parse } from 'yaml'

/** A record of a YAML file. `patterns`: where a wording was seen, and the wording. */
export interface CatalogueRecord extends Readonly<Record<string, unknown>> {
  readonly id: string
  readonly patterns?: readonly Readonly<Record<string, string>>[]
  readonly unless?: readonly string[]
  /** Errors of trestle with this code. */
  readonly ids?: readonly CatalogueRecord[]
}

/** The records of all files of a directory, each with the name of its file as `family`. */
export function readRecords(directory = import.meta.dirname): readonly CatalogueRecord[] {
  const files = readdirSync(directory).filter((name) => name.endsWith('.yaml'))
  return files.toSorted().flatMap((file) => {
    const records = parse(readFileSync(join(directory, file), 'utf8')) as CatalogueRecord[]
    return records.flatMap(withIds).map((each) => ({ ...each, family: basename(file, '.yaml') }))
  })
}

/** An error of trestle stands below its code, and has the code's meaning. One cause needs no list. */
function withIds({ ids = [], ...record }: CatalogueRecord): readonly CatalogueRecord[] {
  const { code, meaning } = record as Readonly<Record<string, unknown>>
  const all: readonly CatalogueRecord[] = [record, ...ids.map((each) => ({ code, meaning, ...each }))]
  return all.map((each) => ({ ...each, causes: [each['causes']].flat() }))
}

/** The text of each built file, by its name. */
export function compile(records = readRecords()): Readonly<Record<'diagnoses.json' | 'patterns.json', string>> {
  const texts = records.map(({ patterns: _, unless: __, ...text }) => ({ look: [], ...text }))
  const wordings = records.flatMap(({ id, patterns, unless }) =>
    patterns === undefined ? [] : [{ id, patterns: patterns.flatMap(Object.values), unless }],
  )
  return { 'diagnoses.json': JSON.stringify(texts), 'patterns.json': JSON.stringify(wordings) }
}
