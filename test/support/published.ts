// SPDX-License-Identifier: Apache-2.0
// Every document that a test gets of a command with `-o json` is held against the schema that is published.

import { z } from 'zod'
import { documentSchema } from '../../src/cli/shell/document-schema.ts'

/** The same value. Throws where it is a document of a command, and none of the schema or with another exit code. */
export function asPublished<T>(value: T, exitCode: number): T {
  const isDocument = typeof value === 'object' && value !== null && 'formatVersion' in value && 'command' in value
  if (!isDocument) return value
  const checked = documentSchema.safeParse(value)
  if (!checked.success) throw new Error(`not as docs/findings.schema.json says:\n${z.prettifyError(checked.error)}`)
  if (checked.data.exitCode !== exitCode) throw new Error(`exitCode ${checked.data.exitCode}, the process: ${exitCode}`)
  return value
}
