// SPDX-License-Identifier: Apache-2.0
// JSON from outside: what is one object, how deep and how large it may be, and keys in any case.

import { describe, expect, it } from 'vitest'
import { defined, lookUp, parseConfig, parseObject } from '../../../src/cni/json.ts'
import { errorOf, lineOf } from '../call.ts'

it('lookUp finds exact first, then any case, and no inherited name', () => {
  expect(lookUp({ NAME: 1, name: 2 }, 'name')).toBe(2)
  expect(lookUp({ NAME: 1, Name: 3 }, 'name')).toBe(3)
  expect(lookUp({}, 'toString')).toBeUndefined()
})

it('defined leaves out keys without a value, and nothing else', () => {
  expect(Object.keys(defined({ a: undefined, b: null, c: 0, d: '' }))).toEqual(['b', 'c', 'd'])
})

it.each([
  ['{"a":1}', { a: 1 }],
  ['[]', undefined],
  ['null', undefined],
  ['{', undefined],
])('parseObject of %s', (text, expected) => {
  expect(parseObject(text)).toEqual(expected)
})

describe('a configuration of 4 MiB', () => {
  const mebibytes4 = 4 * 1024 * 1024 - 200
  const filled = (unit: string) => unit.repeat(Math.floor(mebibytes4 / unit.length))
  it.each([
    ['of brackets', filled('['), 'Unexpected end'],
    ['of objects', filled('{"a":'), 'Unexpected end'],
    ['of lists in lists', `{"a":${'['.repeat(2_000_000)}${']'.repeat(2_000_000)}}`, 'nested more than 64 levels deep'],
    ['of one string without an end', `{"a":"${filled('a')}`, 'Unterminated string'],
    ['of one string of escapes', `{"a":"${filled('\\"')}"`, 'Expected'],
    ['of spaces', filled(' '), 'stdin is empty'],
  ])('%s is refused with code 6, and not repeated', (_, stdin, message) => {
    const error = errorOf(() => parseConfig(stdin))
    expect(lineOf(error)).toContain(`(6) error unmarshall network config: `)
    expect(error.message).toContain(message)
    expect(error.message.length).toBeLessThan(300)
  })

  it('of one long string is read: it may stand where trestle does not look', () => {
    expect(Object.keys(parseConfig(`{"notes":"${filled('a')}"}`))).toEqual(['notes'])
  })
})
