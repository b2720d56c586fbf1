// SPDX-License-Identifier: Apache-2.0
// A batch line means the words it was made of, or is refused.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toBatchLine } from '../../../src-before/tools/batches.ts'
import { readAsIproute2 } from '../../support/fuzz/iproute2-words.ts'

const awkward = fc.string({
  unit: fc.constantFrom('a', '1', '#', '\\', '"', "'", ' ', '\t', '\n', '\r', '\0', 'é', '-', '$', ';', '`'),
  maxLength: 12,
})
const anyWord = fc.oneof(awkward, fc.string({ maxLength: 40 }), fc.string({ unit: 'binary', maxLength: 10 }))

describe('toBatchLine', () => {
  it('is read back by iproute2 as the same words, or refuses them', () => {
    let carried = 0
    fc.assert(
      fc.property(fc.array(anyWord, { minLength: 1, maxLength: 12 }), (words) => {
        const line = lineOrRefusal(words)
        if (line === undefined) return
        carried += 1
        expect(readAsIproute2(line)).toEqual(words)
      }),
      { numRuns: 5000 },
    )
    expect(carried).toBeGreaterThan(100)
  })

  it('carries every word of printable ASCII without #, backslash, or both quotes', () => {
    const letters = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).filter(
      (letter) => !'#\\"'.includes(letter),
    )
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom(...letters), minLength: 1 }), { minLength: 1 }),
        (words) => {
          expect(readAsIproute2(toBatchLine(words))).toEqual(words)
        },
      ),
    )
  })

  it.each(['', 'a#b', '#', 'a\\', 'a\nb', 'a\0', 'a"b\'c d', 'é', '\x1b[31m', 'a\tb'])('refuses %j', (word) => {
    expect(() => toBatchLine(['link', 'set', word])).toThrowError(expect.objectContaining({ code: 4 }))
  })

  it.each([
    [['link', 'set', 'dev', 'veth0', 'up'], 'link set dev veth0 up'],
    [['link', 'set', 'dev', 'a b', 'up'], 'link set dev "a b" up'],
    [['alias', 'say "hi"'], `alias 'say "hi"'`],
    [['addr', 'add', 'fd00::1/64', 'dev', 'eth0@if7'], 'addr add fd00::1/64 dev eth0@if7'],
  ])('writes %j as %j', (words, line) => {
    expect(toBatchLine(words)).toBe(line)
  })
})

function lineOrRefusal(words: readonly string[]): string | undefined {
  try {
    return toBatchLine(words)
  } catch (error) {
    expect(error).toMatchObject({ code: 4 })
    return undefined
  }
}
