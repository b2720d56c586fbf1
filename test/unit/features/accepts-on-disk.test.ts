// SPDX-License-Identifier: Apache-2.0
// What is written down of accepts in other firewalls.

import { describe, expect, it } from 'vitest'
import { decodeMarkAccept, decodeZones } from '../../../src-before/features/accept-place.ts'
import { encodeFile } from '../../../src-before/model/kinds.ts'

const forward = { kind: 'iptables', program: 'iptables-nft', chain: 'FORWARD' } as const

describe('the zones of a network', () => {
  it('are read as they were written', () => {
    const members = ['cni0', '10.1.0.0/24', 'fd00::/64'].map((subject) => ({ subject, zone: 'trusted' }))
    expect(decodeZones(encodeFile({ zones: members }))).toEqual(members)
    expect(encodeFile({ zones: members.slice(0, 1) })).toBe(
      '{"format":1,"zones":[{"subject":"cni0","zone":"trusted"}]}',
    )
  })
  it.each([
    ...['', '{', 'null', '[null]', '{"format":1}', '{"zones":[]}', '{"format":2,"zones":[]}'],
    ...['{"format":1,"zones":[{"subject":"cni0"}]}', '{"format":1,"zones":[{"subject":1,"zone":"trusted"}]}'],
    '{"format":1,"zones":[{"subject":"cni0","zone":"a b"}]}',
  ])('are not read from %j', (text) => {
    expect(decodeZones(text)).toBeUndefined()
    expect(decodeMarkAccept(text)).toBeUndefined()
  })
})

describe('the accept of the mark', () => {
  const accept = { mark: 0x1000, places: [forward] }
  const read = (place: object) => decodeMarkAccept(JSON.stringify({ format: 1, ...accept, places: [place] }))
  it('is read as it was written', () => {
    expect(decodeMarkAccept(encodeFile(accept))).toEqual(accept)
    expect(read(forward)).toEqual(accept)
  })
  it('is not read from a place whose names are no texts, or options, nor from one that is no chain', () => {
    expect(read({ ...forward, program: ['iptables-nft'] })).toBeUndefined()
    expect(read({ ...forward, chain: '-F' })).toBeUndefined()
    expect(read({ kind: 'firewalld', zone: 'trusted' })).toBeUndefined()
  })
})
