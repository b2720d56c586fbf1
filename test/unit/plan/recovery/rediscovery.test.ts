// SPDX-License-Identifier: Apache-2.0
// What is known of attachments beyond their records, from several sources.

import { describe, expect, it } from 'vitest'
import { merged, type Rediscovered, rediscoveredReservations } from '../../../../src-before/plan/recovery/verdicts.ts'

const key = { network: 'n', containerId: 'c1', ifName: 'eth0', role: 'main' } as const
const unseen = { path: '', inode: 0 }
const netns = { path: '/run/netns/c1', inode: 7 }
const link: Rediscovered = { key, netns, addresses: ['10.1.0.2'], ports: [] }
const cached: Rediscovered = { ...link, netns: unseen, addresses: ['10.1.0.2', 'fd00::2'], ports: ['tcp:80:4:any'] }

describe('merged', () => {
  it('is one entry for each attachment, with what all sources tell', () => {
    const other = { ...link, key: { ...key, containerId: 'c2' } }
    expect(merged([link, other, cached])).toEqual([
      { key, netns, addresses: ['10.1.0.2', 'fd00::2'], ports: ['tcp:80:4:any'] },
      other,
    ])
  })
})

it('a chained part has ports reserved, and none of the addresses', () => {
  expect(rediscoveredReservations(cached)).toEqual([
    { network: 'n', name: '10.1.0.2' },
    { network: 'n', name: 'fd00::2' },
    { name: 'tcp:80:4:any' },
  ])
  expect(rediscoveredReservations({ ...cached, key: { ...key, role: 'chained' } })).toEqual([{ name: 'tcp:80:4:any' }])
})
