// SPDX-License-Identifier: Apache-2.0
// The machine's lock: held while what attachments share on it changes, rules first of all.

import { stateRoot } from '../../system/files/state.ts'
import type { LockRequest } from '../../system/store/lock.ts'
import type { CallContext } from './context.ts'

const waitMs = 10_000

/** How this call takes the lock, or waits for its holder. `purpose`: for those who wait meanwhile. */
export function machineLock(context: CallContext, purpose: string): Omit<LockRequest, 'deadline'> {
  return { file: `${stateRoot()}/lock`, purpose, owner: context.identity, waitMs }
}
