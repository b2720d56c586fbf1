// SPDX-License-Identifier: Apache-2.0
// Shapes of values on disk: what is read, what is left out, and what another release has added.

import { describe, expect, it } from 'vitest'
import {
  believed,
  decoded,
  decodeFile,
  encodeFile,
  flag,
  isSameAsKnown,
  listOf,
  number,
  type Of,
  object,
  optional,
  or,
  text,
  withUnknown,
} from '../../../src-before/model/kinds.ts'

const inner = object({ now: text, same: optional(text) })
const outer = object({
  list: listOf(inner),
  one: optional(inner),
  isOn: flag,
  count: or(number, 7),
  loose: believed(inner),
})

const value: Of<typeof outer> = {
  list: [{ now: 'a', same: 's' }],
  one: { now: 'b' },
  isOn: true,
  count: 1,
  loose: { now: 'c' },
}

describe('a shape', () => {
  it('is read with what another release has written besides, at any depth', () => {
    const later = { ...value, added: [1], one: { now: 'b', tag: { x: 1 } } }
    expect(decoded(outer, later)).toStrictEqual(later)
  })

  it('has no field without a value, and a default where the kind has one', () => {
    const read = decoded(outer, { list: [], isOn: false, loose: 5 })
    expect(read).toStrictEqual({ list: [], isOn: false, count: 7 })
  })

  it.each([null, 3, 'x', [], { list: [{ now: 1 }] }, { list: [], one: null }, { list: [], isOn: 'yes' }])(
    'is not read from %j',
    (wrong) => expect(decoded(outer, wrong)).toBeUndefined(),
  )

  it('gets what only another release knows of the value that it takes the place of', () => {
    const before = { ...value, added: [1], one: { now: 'x', tag: 1 }, loose: { now: 'c', tag: 2 } }
    const { loose: _, ...next } = { ...value, count: 2 }
    expect(withUnknown(outer, before, next)).toEqual({ ...next, added: [1], one: { now: 'b', tag: 1 } })
    expect(withUnknown(inner, { now: 'x' }, value.list[0] as Of<typeof inner>)).toBe(value.list[0])
  })

  it('is the same as another one but for what only another release knows', () => {
    const later = { ...value, added: 1, one: { now: 'b', tag: 1 } } as Of<typeof outer>
    expect(isSameAsKnown(outer, later, value)).toBe(true)
    expect(isSameAsKnown(outer, { ...later, count: 2 }, value)).toBe(false)
    expect(isSameAsKnown(outer, undefined, value)).toBe(false)
    expect(isSameAsKnown(outer, undefined, undefined)).toBe(true)
  })
})

describe('a file', () => {
  it('says its format first, and is read with it alone', () => {
    expect(encodeFile({ now: 'a' })).toBe('{"format":1,"now":"a"}')
    expect(decodeFile(inner, '{"format":1,"now":"a"}')).toEqual({ now: 'a' })
    expect(decodeFile(inner, '{"now":"a"}')).toBeUndefined()
  })

  it.each(['', '{', 'null', '[]', '{"format":2,"now":"a"}', '{"format":"1","now":"a"}'])(
    'is not read from %j',
    (json) => expect(decodeFile(inner, json)).toBeUndefined(),
  )
})
