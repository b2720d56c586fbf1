// SPDX-License-Identifier: Apache-2.0
// The digest that tells two plugins of one list apart.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { configDigest } from '../../../src/plan/config-digest.ts'

describe('configDigest', () => {
  it('is the same for any order of keys, and without what the runtime adds', () => {
    const own = '{"name":"n","type":"trestle","ipam":{"type":"static","addresses":[]}}'
    const sent =
      '{"ipam":{"addresses":[],"type":"static"},"cniVersion":"1.1.0","type":"trestle","prevResult":{},"name":"n"}'
    expect(configDigest(sent)).toBe(configDigest(own))
  })

  it('differs when a key or value of its own differs', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string()), fc.dictionary(fc.string(), fc.string()), (a, b) => {
        const isSame = JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort())
        expect(configDigest(JSON.stringify({ a })) === configDigest(JSON.stringify({ a: b }))).toBe(isSame)
      }),
    )
  })

  it('takes text that is no JSON as it is', () => {
    expect(configDigest('{')).not.toBe(configDigest('}'))
    expect(configDigest('{')).toMatch(/^[0-9a-f]{32}$/)
  })
})
