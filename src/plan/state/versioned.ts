// SPDX-License-Identifier: Apache-2.0
// Every JSON file of the state says its format. Additions keep the number: each release reads what it knows, and keeps
// the rest. Release 0.1 wrote it into records alone.

import { asObject } from '../../cni/json/json-object.ts'
import { decoded, encoded, parsedJson, type Stored } from './stored.ts'

/** What this release writes. */
export const format = 1

/** A file's value; undefined where it is no JSON, has another shape, or another format. */
export function decodeFile<T>(kind: Stored<T>, json: string): T | undefined {
  const { format: found, ...rest } = asObject(parsedJson(json))
  return found === format ? decoded(kind, rest) : undefined
}

/** The same of a kind of file that release 0.1 wrote without a format: such a one counts as of this. */
export function decodeEarlier<T>(kind: Stored<T>, json: string): T | undefined {
  return withoutFormat(kind, parsedJson(json))
}

/** The same of a value, which may be in a list: then each says its format. */
export function withoutFormat<T>(kind: Stored<T>, value: unknown): T | undefined {
  const { format: found = format, ...rest } = asObject(value)
  return found === format ? decoded(kind, rest) : undefined
}

/** A value with its format, as it stands on disk. */
export function withFormat<T>(kind: Stored<T>, value: T): object {
  return { format, ...(encoded(kind, value) as object) }
}

/** The text of a file. */
export function encodeFile<T>(kind: Stored<T>, value: T): string {
  return JSON.stringify(withFormat(kind, value))
}
