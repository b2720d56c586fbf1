// SPDX-License-Identifier: Apache-2.0
// A type and its table: names on disk are the table's, whatever the type calls a field.

import { describe, expect, it } from 'vitest'
import {
  believed,
  byKind,
  decoded,
  encoded,
  flag,
  listOf,
  number,
  only,
  optional,
  or,
  stored,
  text,
  wordOr,
} from '../../../../src/plan/state/stored.ts'
import { decodeFile, encodeFile } from '../../../../src/plan/state/versioned.ts'

interface Inner {
  readonly now: string
  readonly same?: string
}

interface Outer {
  readonly list: readonly Inner[]
  readonly one?: Inner
  readonly isOn: boolean
  readonly count: number
  readonly loose?: Inner
}

const inner = stored<Inner>({ now: ['before', text], same: ['same', optional(text)] })
const outer = stored<Outer>({
  list: ['list', listOf(inner)],
  one: ['single', optional(inner)],
  isOn: ['isOn', flag],
  count: ['count', or(number, 7)],
  loose: ['loose', believed(inner)],
})

const value: Outer = { list: [{ now: 'a', same: 's' }], one: { now: 'b' }, isOn: true, count: 1, loose: { now: 'c' } }
const onDisk = {
  list: [{ before: 'a', same: 's' }],
  single: { before: 'b' },
  isOn: true,
  count: 1,
  loose: { before: 'c' },
}

describe('a stored type', () => {
  it('is written under the names of the disk, and read from them', () => {
    expect(encoded(outer, value)).toEqual(onDisk)
    expect(decoded(outer, onDisk)).toStrictEqual(value)
  })

  it('keeps what another release has written besides, at any depth', () => {
    const later = { ...onDisk, added: [1], single: { before: 'b', tag: { x: 1 } } }
    const read = decoded(outer, later) as Outer
    expect(encoded(outer, read)).toEqual(later)
  })

  it('takes no field from a name that only the type has: it was never checked', () => {
    expect(decoded(inner, { before: 'a', now: ['x'] })).toEqual({ now: 'a' })
    expect(decoded(inner, { now: 'a' })).toBeUndefined()
  })

  it('has no field without a value, and a default where the kind has one', () => {
    const read = decoded(outer, { list: [], isOn: false, loose: 5 })
    expect(read).toStrictEqual({ list: [], isOn: false, count: 7 })
  })

  it.each([null, 3, 'x', [], { list: [{ before: 1 }] }, { list: [], single: null }, { list: [], isOn: 'yes' }])(
    'is not read from %j',
    (wrong) => expect(decoded(outer, wrong)).toBeUndefined(),
  )

  it('may have one word in place of an object, or be one of several by their kind', () => {
    const either = wordOr('none', inner)
    expect([decoded(either, 'none'), decoded(either, { before: 'a' })]).toEqual(['none', { now: 'a' }])
    expect([decoded(either, 'some'), encoded(either, { now: 'a' })]).toEqual([undefined, { before: 'a' }])
    type A = { readonly kind: 'a'; readonly now: string }
    type B = { readonly kind: 'b' }
    const kind = <T extends string>() => only<T>((each) => typeof each === 'string')
    const a = stored<A>({ kind: ['kind', kind()], now: ['before', text] })
    const several = byKind<A | B>({ a, b: stored<B>({ kind: ['kind', kind()] }) })
    expect(decoded(several, { kind: 'a', before: 'x' })).toEqual({ kind: 'a', now: 'x' })
    expect(encoded(several, { kind: 'a', now: 'x' })).toEqual({ kind: 'a', before: 'x' })
    expect(decoded(several, { kind: 'b' })).toEqual({ kind: 'b' })
    for (const wrong of [{ kind: 'c' }, { kind: 'a' }, {}, { kind: 'constructor' }])
      expect(decoded(several, wrong)).toBeUndefined()
  })
})

describe('a file', () => {
  it('says its format first, and is read with it alone', () => {
    expect(encodeFile(inner, { now: 'a' })).toBe('{"format":1,"before":"a"}')
    expect(decodeFile(inner, '{"format":1,"before":"a"}')).toEqual({ now: 'a' })
    expect(decodeFile(inner, '{"before":"a"}')).toBeUndefined()
  })

  it.each(['', '{', 'null', '[]', '{"format":2,"before":"a"}', '{"format":"1","before":"a"}'])(
    'is not read from %j',
    (json) => expect(decodeFile(inner, json)).toBeUndefined(),
  )
})
