// SPDX-License-Identifier: Apache-2.0
// The record of an attachment of which no more is known than whose it is: its links follow from its name, what it has
// reserved says so itself, and DEL finds the rest in our tables.

import type { AttachmentKey } from '../../plan/model/attachment.ts'
import type { AttachmentRecord, NetnsIdentity } from '../../plan/model/record.ts'
import { timestamp } from '../../system/process/clock.ts'
import type { CallContext } from './context.ts'

const unknown: NetnsIdentity = { path: '', inode: 0 }

/** As written by this call, now. `netns`: where it is known. */
export function withoutSpec({ identity }: CallContext, key: AttachmentKey, netns = unknown): AttachmentRecord {
  return { key, writer: identity, netns, createdAt: timestamp(), configDigest: '' }
}
