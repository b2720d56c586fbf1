// SPDX-License-Identifier: Apache-2.0
// A list and a watch of the API server, read while they come: the same values as of the whole text, however it was cut.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ItemReader } from '../../../../src/cli/agent/json-items.ts'
import { lineReader } from '../../../../src/cli/agent/request.ts'

/** The text in chunks, each of the size that comes next. */
function cut(text: string, sizes: readonly number[]): readonly Buffer[] {
  const [bytes, chunks]: [Buffer, Buffer[]] = [Buffer.from(text), []]
  for (let [at, n] = [0, 0]; at < bytes.length; n++) {
    const size = Math.max(1, sizes[n % sizes.length] ?? 1)
    chunks.push(bytes.subarray(at, at + size))
    at += size
  }
  return chunks
}

function readItems(chunks: readonly Buffer[]): { items: unknown[]; rest: unknown } {
  const items: unknown[] = []
  const reader = new ItemReader((item) => items.push(item))
  for (const chunk of chunks) reader.read(chunk)
  return { items, rest: reader.rest() }
}

const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 })
const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue())

describe('ItemReader', () => {
  it('gives the items of a list in any chunks, and keeps what is around them', () => {
    fc.assert(
      fc.property(fc.array(object), object, sizes, fc.constantFrom(undefined, 1), (items, metadata, cuts, space) => {
        const text = JSON.stringify({ kind: 'NodeList', metadata, items, after: { list: [{}] } }, undefined, space)
        expect(readItems(cut(text, cuts))).toEqual({
          items: JSON.parse(JSON.stringify(items)),
          rest: JSON.parse(JSON.stringify({ kind: 'NodeList', metadata, items: [], after: { list: [{}] } })),
        })
      }),
    )
  })

  it('takes brackets, quotes and backslashes in strings for text', () => {
    const items = [{ a: '[{"' }, { 'b}]\\': ['\\"', { c: '\u00e4\u{1f600}' }] }, {}]
    const text = JSON.stringify({ items, metadata: { note: '"items":[{' } })
    expect(readItems(cut(text, [1]))).toEqual({ items, rest: { items: [], metadata: { note: '"items":[{' } } })
  })

  it('refuses what is cut off, is no JSON, or has no end', () => {
    expect(() => readItems([Buffer.from('{"items":[{"a":1}')])).toThrow(SyntaxError)
    expect(() => readItems([Buffer.from('{"items":[{"a":tru}]}')])).toThrow(SyntaxError)
    expect(() => readItems([Buffer.from('<html>')])).toThrow(SyntaxError)
    const endless = Array.from({ length: 20 }, (_, n) =>
      Buffer.from(`${n === 0 ? '{"items":[{"a":"' : ''}${'x'.repeat(500_000)}`),
    )
    expect(() => readItems(endless)).toThrow(RangeError)
  })
})

describe('lineReader', () => {
  it('gives each line in any chunks', () => {
    fc.assert(
      fc.property(fc.array(object), sizes, (events, cuts) => {
        const found: unknown[] = []
        const read = lineReader((line) => found.push(line))
        for (const chunk of cut(events.map((event) => `${JSON.stringify(event)}\n`).join(''), cuts)) read(chunk)
        expect(found).toEqual(JSON.parse(JSON.stringify(events)))
      }),
    )
  })

  it('refuses a line that is no JSON or has no end', () => {
    const read = lineReader(() => undefined)
    expect(() => read(Buffer.from('garbage\n'))).toThrow(SyntaxError)
    const endless = lineReader(() => undefined)
    expect(() => {
      for (let n = 0; n < 20; n++) endless(Buffer.alloc(500_000, 'x'))
    }).toThrow(RangeError)
  })
})
