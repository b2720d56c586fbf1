// SPDX-License-Identifier: Apache-2.0
// gc without the runtime: what goes, what is told, what stays (user-pain rank 5).

import { describe, expect, it } from 'vitest'
import { type Facts, judge } from '../../../src/plan/garbage.ts'
import type { AttachmentRecord } from '../../../src/plan/record.ts'

const record: AttachmentRecord = {
  format: 1,
  key: { network: 'n', containerId: 'c', ifName: 'eth0', role: 'main' },
  writer: { pid: 1, startTime: '1', bootId: 'b', pidNamespace: 'pid:[1]' },
  netns: { path: '/run/netns/x', inode: 1 },
  createdAt: '2026-01-01T00:00:00Z',
  configDigest: '',
}

const dead: Facts = { record, netns: 'gone', isThisBoot: true, isListed: false, isOld: true }

describe('judge', () => {
  it.each<[string, Partial<Facts>, string]>([
    ['unlisted, namespace gone, old', {}, 'collect'],
    ['no runtime to ask, namespace gone, old', { isListed: undefined }, 'collect'],
    ['of an earlier boot, whatever else is said', { isThisBoot: false, netns: 'live', isListed: true }, 'collect'],
    ['listed, namespace gone', { isListed: true }, 'keep'],
    ['unlisted, namespace there', { netns: 'live' }, 'report'],
    ['no runtime to ask, namespace there', { netns: 'live', isListed: undefined }, 'keep'],
    ['namespace not to be seen', { netns: 'unknown' }, 'report'],
    ['not older than five minutes', { isOld: false }, 'keep'],
  ])('%s', (_, changes, verdict) => {
    expect(judge({ ...dead, ...changes }).verdict).toBe(verdict)
  })
})
