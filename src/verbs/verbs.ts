// SPDX-License-Identifier: Apache-2.0
// The verbs as the edge calls them.

import type { Verbs } from '../cni/dispatch.ts'
import type { Recorder } from '../recording/recorder.ts'
import { add } from './add.ts'
import { check } from './check.ts'
import { openContext } from './context.ts'
import { del } from './del.ts'
import { gc } from './gc.ts'
import { status } from './status.ts'

/** `signal`: asks the call to end. `startedMs`: when it began (nowMs()). `recorder`: sees every process. */
export function verbsOf(signal: AbortSignal, startedMs: number, recorder: Recorder): Verbs {
  const context = (isRemoval: boolean) => openContext(signal, isRemoval, startedMs, recorder.wrapRun)
  return {
    add: (call, conf) => add(call, conf, context(false)),
    del: (call, conf) => del(call, conf, context(true)),
    check: (call, conf) => check(call, conf, context(false)),
    gc: (call, conf) => gc(call, conf, context(true)),
    status: (call, conf) => status(call, conf, context(false)),
  }
}
