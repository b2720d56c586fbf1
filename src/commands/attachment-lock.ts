// SPDX-License-Identifier: Apache-2.0
// The lock of one attachment: held while it is taken down, and while its delegated lease is given back.

import type { AttachmentKey } from '../plan/attachment.ts'
import { recordFileName } from '../plan/names.ts'
import type { LockRequest } from '../system/lock.ts'
import { networkFiles } from '../system/state.ts'
import type { CallContext } from './context.ts'

const waitMs = 10_000

/** How this call takes the lock, or waits for its holder. `purpose`: for those who wait meanwhile. */
export function attachmentLock(context: CallContext, key: AttachmentKey, purpose: string): LockRequest {
  const file = `${networkFiles(key.network).locks}/${recordFileName(key)}`
  return { file, purpose, owner: context.stamp, waitMs, deadline: context.waits }
}
