// SPDX-License-Identifier: Apache-2.0
// Which diagnoses of the catalogue a source names.

import { globSync, readFileSync } from 'node:fs'
import { diagnoses } from '../../src/catalogue/diagnosis.ts'

/** The ids that stand as texts in the files of a pattern. */
export function idsNamedIn(pattern: string): ReadonlySet<string> {
  const texts = globSync(pattern).map((file) => readFileSync(file, 'utf8'))
  const words = texts.flatMap((text) => text.match(/(?<=')[a-z][a-z\d]*(?:-[a-z\d]+)*(?=')/g) ?? [])
  return new Set(words.filter((word) => diagnoses().has(word)))
}

/** The ids of the findings of a command. */
export function idsOfFamily(family: string): readonly string[] {
  return [...diagnoses().values()].flatMap((each) => (each.family === family ? [each.id] : []))
}
