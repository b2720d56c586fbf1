// SPDX-License-Identifier: Apache-2.0
// The verbs as the protocol edge calls them.

import { CniError } from '../../cni/error.ts'
import type { ErrorId } from '../../cni/error-code.ts'
import { stateRoot } from '../../system/files/state.ts'
import { openContext } from '../call/context.ts'
import type { Handlers } from '../call/dispatch.ts'
import { add } from './add.ts'
import { check } from './check.ts'
import { del } from './del.ts'
import { gc } from './gc.ts'
import { status } from './status.ts'

/**
 * The verbs. `signal`: aborted when the process is asked to end; DEL and GC finish all the same, but a DEL waits for no
 * lock any more. `startedMs`: when the call began (nowMs(), milliseconds), waiting for its configuration
 * included.
 */
export function handlers(signal: AbortSignal, startedMs: number): Handlers {
  return {
    add: (call, conf) => withStateErrors(add(openContext(signal, startedMs), call, conf)),
    del: (call, conf) =>
      withStateErrors(
        del(openContext(new AbortController().signal, startedMs, signal), call, conf),
        'cleanup-not-recorded',
      ),
    check: (call, conf) => withStateErrors(check(openContext(signal, startedMs), call, conf)),
    gc: (call, conf) => withStateErrors(gc(openContext(new AbortController().signal, startedMs), call, conf)),
    status: (call, conf) => withStateErrors(status(openContext(signal, startedMs), call, conf)),
  }
}

/** DEL says "try again later": it is sent again (specification, section 5, code 11). */
async function withStateErrors<T>(work: Promise<T>, refused: ErrorId = 'state-not-kept'): Promise<T> {
  try {
    return await work
  } catch (cause) {
    const { syscall, message } = cause as NodeJS.ErrnoException
    // A system call that failed is foreseen, whatever its reason: a full, read-only or damaged file system.
    if (cause instanceof CniError || syscall === undefined) throw cause
    throw new CniError(refused, `cannot keep state: ${message}`, {
      details: `the state directory ${stateRoot()} must be writable and have room`,
      cause,
    })
  }
}
