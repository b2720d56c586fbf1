// SPDX-License-Identifier: Apache-2.0
// What an error says: paths of keys, values that are quoted, text of others on one line.

import { expect, it } from 'vitest'
import { Code, keyPathText, oneLine, quote, toCniError } from '../../../src/cni/errors.ts'

it('a path of a key is written as an operator writes it', () => {
  expect(keyPathText(['ipam', 'ranges', 0, 1, 'subnet'])).toBe('ipam.ranges[0][1].subnet')
  expect(keyPathText([])).toBe('')
})

it.each<[unknown, string]>([
  ['a', '"a"'],
  ['a"\n', '"a\\"\\n"'],
  ['x'.repeat(70), `"${'x'.repeat(63)}...`],
  [{ a: 1 }, '{"a":1}'],
  [undefined, 'nothing'],
  [null, 'null'],
])('%j is quoted as %s', (value, text) => {
  expect(quote(value)).toBe(text)
})

it.each([
  ['  one\n  two \n', 'one; two'],
  ['\x1b[31mred\x07', '\\x1b[31mred\\x07'],
  ['a\u0085b\x7f', 'a\\x85b\\x7f'],
])('%j is %j on one line', (text, line) => {
  expect(oneLine(text)).toBe(line)
})

it.each([
  ['EROFS', Code.ioFailure],
  ['ENOSPC', Code.ioFailure],
  ['EISDIR', Code.ioFailure],
  ['EMFILE', Code.tryAgainLater],
  ['ENOMEM', Code.tryAgainLater],
])('a system call refused with %s is foreseen: code %i', (code, expected) => {
  const error = Object.assign(new Error(`${code}: x, open '/run/a'`), { code, syscall: 'open' })
  expect(toCniError(error)).toMatchObject({ code: expected, id: 'file-refused', message: error.message })
})
