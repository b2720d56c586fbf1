// SPDX-License-Identifier: Apache-2.0
// The verbs as the protocol edge calls them.

import type { Handlers } from '../cni/dispatch.ts'
import { add } from './add.ts'
import { check } from './check.ts'
import { openContext } from './context.ts'
import { del } from './del.ts'
import { gc } from './gc.ts'
import { status } from './status.ts'

/** The verbs, each with a fresh clock. `signal`: aborted when the process is asked to end; DEL and GC finish all the same. */
export function handlers(signal: AbortSignal): Handlers {
  return {
    add: (call, conf) => add(openContext(signal), call, conf),
    del: (call, conf) => del(openContext(new AbortController().signal), call, conf),
    check: (call, conf) => check(openContext(signal), call, conf),
    gc: (call, conf) => gc(openContext(new AbortController().signal), call, conf),
    status: (call, conf) => status(openContext(signal), call, conf),
  }
}
