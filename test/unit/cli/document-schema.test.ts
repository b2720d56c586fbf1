// SPDX-License-Identifier: Apache-2.0
// The published schema of `-o json`. What commands print is held against it where tests run them (test/support/published.ts).

import { expect, it } from 'vitest'
import { asPublished, documentSchema } from '../../support/published.ts'

const finding = {
  id: 'forwarding-off',
  severity: 'error',
  on: 'eth0',
  message: 'it is 0',
  cause: 'a script',
  cure: 'set it',
}
const document = { formatVersion: 1, command: 'lint', exitCode: 1, findings: [finding] }

it.each([
  ['a finding of an unknown severity', { ...document, findings: [{ ...finding, severity: 'fatal' }] }],
  ['a finding without a cure', { ...document, findings: [{ ...finding, cure: '' }] }],
  ['a finding with a key that is not published', { ...document, findings: [{ ...finding, hint: 'x' }] }],
  ['an id that is a sentence', { ...document, findings: [{ ...finding, id: 'No forwarding' }] }],
  ['no exit code', { formatVersion: 1, command: 'lint' }],
])('refuses %s', (_, value) => {
  expect(documentSchema.safeParse(document).success).toBe(true)
  expect(documentSchema.safeParse(value).success).toBe(false)
})

it('a test that gets a document with another exit code than the process had fails', () => {
  expect(() => asPublished(document, 0)).toThrow('exitCode 1, the process: 0')
  expect(() => asPublished({ ...document, findings: [{}] }, 1)).toThrow('findings.schema.json')
})
