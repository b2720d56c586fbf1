// SPDX-License-Identifier: Apache-2.0
// The lock of one attachment: held while it is torn down, and while its delegated lease is given back.

import type { AttachmentKey } from '../../plan/model/attachment.ts'
import { recordFileName } from '../../plan/model/names.ts'
import { namesIn } from '../../system/files/files.ts'
import { type NetworkFiles, networkFiles } from '../../system/files/state.ts'
import { type LockRequest, waitForHolder } from '../../system/store/lock.ts'
import type { CallContext } from './context.ts'

const waitMs = 10_000

/** How this call takes the lock, or waits for its holder. `purpose`: for those who wait meanwhile. */
export function attachmentLock(context: CallContext, key: AttachmentKey, purpose: string): LockRequest {
  return request(context, `${networkFiles(key.network).locks}/${recordFileName(key)}`, purpose)
}

/**
 * Waits until what others are tearing down of the network now is gone, or for as long as others wait for a lock. Never
 * fails.
 */
export async function waitForTeardowns(context: CallContext, { locks }: NetworkFiles): Promise<void> {
  const held = namesIn(locks).map((name) => request(context, `${locks}/${name}`, 'have what it frees'))
  await Promise.allSettled(held.map(waitForHolder))
}

function request(context: CallContext, file: string, purpose: string): LockRequest {
  return { file, purpose, owner: context.identity, waitMs, deadline: context.waits }
}
