// SPDX-License-Identifier: Apache-2.0
// Our SHA-256 against Node's.

import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sha256 } from '../../../src/drivers/sha256.ts'

const expected = (data: string | Uint8Array) => createHash('sha256').update(data).digest('hex')

describe('sha256', () => {
  it('gives the digest of every length around a block boundary', () => {
    for (let length = 0; length < 200; length++) {
      const data = 'a'.repeat(length)
      expect(sha256(data).toString('hex'), `${length} bytes`).toBe(expected(data))
    }
  })

  it('gives the digest of any bytes and any text', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (data) => sha256(data).toString('hex') === expected(data)))
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (data) => sha256(data).toString('hex') === expected(data)))
  })
})
