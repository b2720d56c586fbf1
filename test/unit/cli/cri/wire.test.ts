// SPDX-License-Identifier: Apache-2.0
// The message tables: bytes as the protobuf encoding guide gives them, and every message back as it went in.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bool, decode, encode, int32, many, one, string, stringMap } from '../../../../src/commands/runtimes/wire.ts'
import { bytes, int64, strings } from '../../../support/cri.ts'

const inner = { text: string(1), number: int32(2) }
const message = {
  text: string(1),
  flag: bool(2),
  number: int32(3),
  nanoseconds: int64(4),
  data: bytes(5),
  words: strings(6),
  labels: stringMap(7),
  nested: one(8, inner),
  list: many(9, inner),
  far: string(2047),
}
const int32s = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
const inners = fc.record({ text: fc.string({ unit: 'grapheme' }), number: int32s })
const messages = fc.record({
  text: fc.string({ unit: 'grapheme' }),
  flag: fc.boolean(),
  number: int32s,
  nanoseconds: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  data: fc.uint8Array(),
  words: fc.array(fc.string()),
  labels: fc.dictionary(fc.string(), fc.string(), { noNullPrototype: true }),
  nested: fc.option(inners, { nil: undefined }),
  list: fc.array(inners),
  far: fc.string(),
})

describe('CRI message tables', () => {
  it('writes the bytes of the protobuf encoding guide', () => {
    expect(Buffer.from(encode({ a: int32(1) }, { a: 150 })).toString('hex')).toBe('089601')
    expect(Buffer.from(encode({ b: string(2) }, { b: 'testing' })).toString('hex')).toBe('120774657374696e67')
    expect(Buffer.from(encode({ c: one(3, { a: int32(1) }) }, { c: { a: 150 } })).toString('hex')).toBe('1a03089601')
    expect(Buffer.from(encode({ a: int32(1) }, { a: -2 })).toString('hex')).toBe('08feffffffffffffffff01')
  })

  it('writes nothing for empty values and gives them back', () => {
    expect(encode(message, { text: '', flag: false, number: 0, words: [], labels: {} })).toHaveLength(0)
    expect(decode(message, new Uint8Array())).toMatchObject({
      text: '',
      flag: false,
      nanoseconds: 0n,
      list: [],
      labels: {},
    })
    expect(decode(message, new Uint8Array()).nested).toBeUndefined()
  })

  it('keeps empty entries of lists and empty nested messages', () => {
    const sent = { words: ['', 'a', ''], nested: {}, list: [{}, { text: 'x' }] }
    const { words, nested, list } = decode(message, encode(message, sent))
    expect(words).toEqual(['', 'a', ''])
    expect(nested).toEqual({ text: '', number: 0 })
    expect(list).toEqual([
      { text: '', number: 0 },
      { text: 'x', number: 0 },
    ])
  })

  it('gives back what was written', () => {
    fc.assert(
      fc.property(messages, (sent) => {
        expect(decode(message, encode(message, sent))).toEqual(sent)
      }),
    )
  })

  it('skips fields that its table does not name, and fields of another wire type', () => {
    fc.assert(
      fc.property(messages, (sent) => {
        const { text, words } = decode({ text: string(1), words: strings(6), other: string(3) }, encode(message, sent))
        expect([text, words]).toEqual([sent.text, sent.words])
      }),
    )
  })

  it('refuses bytes that end in the middle of a field', () => {
    const whole = encode(message, { text: 'twelve bytes' })
    for (let length = 1; length < whole.length; length++)
      expect(() => decode(message, whole.slice(0, length))).toThrow()
  })
})
