// SPDX-License-Identifier: Apache-2.0
// The locks of a call: that of the machine, while shared parts of the node change, and that of an attachment.

import type { AttachmentKey } from '../../model/attachment.ts'
import { recordFileName } from '../../model/names.ts'
import { namesIn } from '../../system/files/files.ts'
import { type NetworkFiles, networkFiles, stateRoot } from '../../system/files/state.ts'
import { type LockRequest, waitForHolder } from '../../system/store/lock.ts'
import type { CallContext } from './context.ts'

const waitMs = 10_000

/** The lock of the machine: held while rules and other shared parts change. `purpose`: for calls that wait. */
export function machineLock(context: CallContext, purpose: string, deadline = context.work): LockRequest {
  return { file: `${stateRoot()}/lock`, purpose, owner: context.identity, waitMs, deadline }
}

/** The lock of an attachment: held while it is torn down, and while its delegated lease is given back. */
export function attachmentLock(context: CallContext, key: AttachmentKey, purpose: string): LockRequest {
  return request(context, `${networkFiles(key.network).locks}/${recordFileName(key)}`, purpose)
}

/** Waits, as for a lock, until what others are tearing down of the network now is gone. Never fails. */
export async function waitForTeardowns(context: CallContext, { locks }: NetworkFiles): Promise<void> {
  const held = namesIn(locks).map((name) => request(context, `${locks}/${name}`, 'have what it frees'))
  await Promise.allSettled(held.map(waitForHolder))
}

function request(context: CallContext, file: string, purpose: string): LockRequest {
  return { file, purpose, owner: context.identity, waitMs, deadline: context.waits }
}
