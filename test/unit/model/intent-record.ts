// SPDX-License-Identifier: Apache-2.0
// The record of an attachment of which nothing is known but whose it is.

import type { AttachmentRecord } from '../../../src-before/model/record.ts'

export const intent: AttachmentRecord = {
  key: { network: 'n', containerId: 'c', ifName: 'eth0', role: 'main' },
  writer: { pid: 1, startTime: '1', bootId: 'b', pidNamespace: 'pid:[1]' },
  netns: { path: '/run/netns/x', inode: 1 },
  createdAt: '2026-01-01T00:00:00Z',
  configDigest: '',
}
