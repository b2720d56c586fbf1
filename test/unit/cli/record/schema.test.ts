// SPDX-License-Identifier: Apache-2.0
// The published schema of a record is that of the code. UPDATE_DOCS=1 writes it.

import { readFileSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { publishedRecordSchema } from '../../../../src/commands/record/record-schema.ts'

const page = 'docs/record.schema.json'

it('docs/record.schema.json is the schema of a line of a record', () => {
  const text = `${JSON.stringify(publishedRecordSchema(), undefined, 2)}\n`
  if (process.env['UPDATE_DOCS']) writeFileSync(page, text)
  expect(JSON.parse(readFileSync(page, 'utf8'))).toEqual(JSON.parse(text))
})
