// SPDX-License-Identifier: Apache-2.0
// Every document that a test gets of a command with `-o json` is held against the schema that is published.

import { readFileSync } from 'node:fs'
import { z } from 'zod'

export const documentSchema = schemaIn('findings.schema.json')

/** The same value. Throws where it is a document of a command, and none of the schema or with another exit code. */
export function asPublished<T>(value: T, exitCode: number): T {
  const isDocument = typeof value === 'object' && value !== null && 'formatVersion' in value && 'command' in value
  if (!isDocument) return value
  const checked = documentSchema.safeParse(value)
  if (!checked.success) throw new Error(`not as docs/findings.schema.json says:\n${z.prettifyError(checked.error)}`)
  const said = (value as { readonly exitCode?: unknown }).exitCode
  if (said !== exitCode) throw new Error(`exitCode ${said}, the process: ${exitCode}`)
  return value
}

function schemaIn(name: string): z.ZodType {
  return z.fromJSONSchema(JSON.parse(readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8')))
}
