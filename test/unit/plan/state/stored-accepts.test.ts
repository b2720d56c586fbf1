// SPDX-License-Identifier: Apache-2.0
// What is written down of accepts in other firewalls.

import { describe, expect, it } from 'vitest'
import {
  decodeHostAccepts,
  decodeMarkAccept,
  encodeHostAccepts,
  encodeMarkAccept,
} from '../../../../src/plan/state/stored-accepts.ts'

describe('what was put', () => {
  const bad = ['', '{', 'null', '[null]', '{"bridge":"cni0"}', '{"bridge":1,"places":[]}', '[{"subnet":"10.1.0.0/24"}]']
  const forward = { kind: 'iptables', program: 'iptables-nft', chain: 'FORWARD' } as const
  it('is not read from a place whose names are no texts, or options', () => {
    const read = (place: object) => decodeHostAccepts(JSON.stringify({ bridge: 'cni0', places: [place] }))
    expect(read({ ...forward, program: ['iptables-nft'] })).toBeUndefined()
    expect(read({ ...forward, chain: '-F' })).toBeUndefined()
    expect(read(forward)).toBeDefined()
  })
  it.each(bad)('is not read from %j', (text) => {
    expect(decodeHostAccepts(text)).toBeUndefined()
    expect(decodeMarkAccept(text)).toBeUndefined()
  })
  it.each([
    ['a bridge', [{ subject: 'cni0', places: [forward] }]],
    [
      'subnets',
      ['10.1.0.0/24', 'fd00::/64'].map((subject) => ({
        subject,
        places: [{ kind: 'firewalld', zone: 'trusted' } as const],
      })),
    ],
  ])('for %s is read as it was written', (_, accepts) => {
    expect(decodeHostAccepts(encodeHostAccepts(accepts))).toEqual(accepts)
  })
  it('for a bridge is one object, as versions before read it', () => {
    expect(encodeHostAccepts([{ subject: 'cni0', places: [] }])).toBe('{"format":1,"bridge":"cni0","places":[]}')
  })
  it('of the mark is in chains only', () => {
    const accept = { mark: 0x1000, places: [forward] }
    expect(decodeMarkAccept(encodeMarkAccept(accept))).toEqual(accept)
    expect(decodeMarkAccept(JSON.stringify(accept))).toEqual(accept)
    const zone = { kind: 'firewalld', zone: 'trusted' }
    expect(decodeMarkAccept(JSON.stringify({ ...accept, places: [zone] }))).toBeUndefined()
  })
})
