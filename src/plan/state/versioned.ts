// SPDX-License-Identifier: Apache-2.0
// Every JSON file of the state says its format. Additions keep the number: each release reads what it knows, and keeps
// the rest.

import { asObject } from '../../cni/json/json-object.ts'
import { decoded, encoded, parsedJson, type Stored } from './stored.ts'

/** What this release writes. */
export const format = 1

/** A file's value; undefined where it is no JSON, has another shape, or another format. */
export function decodeFile<T>(kind: Stored<T>, json: string): T | undefined {
  const { format: found, ...rest } = asObject(parsedJson(json))
  return found === format ? decoded(kind, rest) : undefined
}

/** The text of a file. */
export function encodeFile<T>(kind: Stored<T>, value: T): string {
  return JSON.stringify({ format, ...(encoded(kind, value) as object) })
}
