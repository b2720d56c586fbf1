// SPDX-License-Identifier: Apache-2.0
// JSON as a runtime sends it: where it is wrong, and keys in any case.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findJsonProblem } from '../../../src-before/cni/config-head.ts'
import { group, list, optional, text, textMap, uint32 } from '../../../src-before/cni/fields.ts'
import { keyShapeOf, lookUp, withKnownKeys } from '../../../src-before/cni/json.ts'

describe('findJsonProblem', () => {
  it.each([
    ['', 1, 1, 'expected a value, but the text ends'],
    ['{', 1, 2, 'expected a key in double quotes, but the text ends'],
    ['{"a":1,}', 1, 7, 'a comma before "}"'],
    ['[1,\n 2,\n]', 2, 3, 'a comma before "]"'],
    ['{"a" 1}', 1, 6, 'expected ":" after the key, found "1"'],
    ['{a:1}', 1, 2, 'expected a key in double quotes, found "a"'],
    ['{"a":1 "b":2}', 1, 8, 'expected "," or "}", found "\\""'],
    ['{"a":01}', 1, 6, 'expected a value, found "0"'],
    ['{"a":tru}', 1, 6, 'expected a value, found "t"'],
    ["{'a':1}", 1, 2, 'expected a key in double quotes, found "\'"'],
    ['{"a":\'b\'}', 1, 6, 'strings use double quotes'],
    ['{"a":"b', 1, 8, 'the text ends inside a string'],
    ['{"a":"b\n"}', 1, 8, 'a string has no closing quote on its line'],
    ['{"a":"\\x"}', 1, 7, 'invalid escape in a string'],
    ['{} {}', 1, 4, 'more text after the JSON value'],
    ['{\n  // no\n}', 2, 3, 'expected a key in double quotes, found "/"'],
    ['[# no\n]', 1, 2, 'JSON has no comments'],
    ['\ufeff{}', 1, 1, 'a byte order mark, which JSON does not have'],
  ])('%j', (source, line, column, problem) => {
    expect(() => JSON.parse(source)).toThrow()
    expect(findJsonProblem(source)).toMatchObject({ line, column, problem })
  })

  it('agrees with JSON.parse on any text', () => {
    const tokens = fc.constantFrom(
      ...'{}[]:,"\\ \n\tatruefalsnl0123456789.-+eE/u'.split(''),
      'true',
      'null',
      '"a"',
      '1',
    )
    const accepts = (source: string) => {
      try {
        JSON.parse(source)
        return true
      } catch {
        return false
      }
    }
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json(),
          fc.string(),
          fc.array(tokens).map((parts) => parts.join('')),
        ),
        (source) => {
          expect(findJsonProblem(source) === undefined).toBe(accepts(source))
        },
      ),
      { numRuns: 2000 },
    )
  })

  it('finds no problem in, and needs no stack for, 100000 open brackets', () => {
    expect(findJsonProblem('['.repeat(100_000) + ']'.repeat(100_000))).toBeUndefined()
    expect(findJsonProblem('['.repeat(100_000))?.offset).toBe(100_000)
  })
})

describe('withKnownKeys', () => {
  const shape = keyShapeOf(
    group({
      hostPort: uint32,
      map: textMap,
      inner: optional(group({ ifName: text })),
      rows: optional(list(list(group({ ID: text })))),
    }),
  )

  it.each([
    ['renames', { HOSTPORT: 1 }, { hostPort: 1 }],
    ['goes into objects', { Inner: { IFNAME: 'a', other: 1 } }, { inner: { ifName: 'a', other: 1 } }],
    ['goes into lists of lists', { rows: [[{ id: 'a' }], []] }, { rows: [[{ ID: 'a' }], []] }],
    ['keeps unknown keys', { x: { hostport: 1 }, Y: null }, { x: { hostport: 1 }, Y: null }],
    ['leaves the keys of maps', { MAP: { HostPort: 'a' } }, { map: { HostPort: 'a' } }],
    ['exact wins, first', { hostPort: 1, HostPort: 2 }, { hostPort: 1 }],
    ['exact wins, last', { HostPort: 2, hostPort: 1 }, { hostPort: 1 }],
    ['else the last wins', { HOSTPORT: 1, HostPort: 2 }, { hostPort: 2 }],
    ['null leaves the default', { hostPort: null, inner: null }, {}],
    ['a wrong type stays', { rows: 3, inner: [1] }, { rows: 3, inner: [1] }],
  ])('%s', (_, given, expected) => {
    expect(withKnownKeys(given, shape)).toEqual(expected)
  })

  it('keeps __proto__ a key and pollutes nothing', () => {
    const out = withKnownKeys(JSON.parse('{"__proto__": {"ifName": "x"}, "inner": {"__proto__": 1}}'), shape) as object
    expect(Object.getPrototypeOf(out)).toBe(Object.prototype)
    expect(Object.keys(out)).toEqual(['__proto__', 'inner'])
    expect(({} as { ifName?: string }).ifName).toBeUndefined()
  })

  it('lookUp finds exact first, then any case, and no inherited name', () => {
    expect(lookUp({ NAME: 1, name: 2 }, 'name')).toBe(2)
    expect(lookUp({ NAME: 1, Name: 3 }, 'name')).toBe(3)
    expect(lookUp({}, 'toString')).toBeUndefined()
  })
})
