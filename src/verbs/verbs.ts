// SPDX-License-Identifier: Apache-2.0
// The verbs as the edge calls them.

import type { Verbs } from '../cni/dispatch.ts'
import type { Recorder } from '../recording/recorder.ts'
import { add } from './add.ts'
import { check } from './check.ts'
import { openContext, openRemovingContext } from './context.ts'
import { del } from './del.ts'
import { gc } from './gc.ts'
import { status } from './status.ts'

/** `signal`: asks the call to end. `startedMs`: when it began (nowMs()). `recorder`: sees every process. */
export function verbsOf(signal: AbortSignal, startedMs: number, { wrapRun: wrap }: Recorder): Verbs {
  const of = ({ path }: { path: readonly string[] }, { stdin }: { stdin: string }) => ({
    path,
    stdin,
    signal,
    startedMs,
    wrap,
  })
  return {
    add: (call, conf) => add(call, conf, openContext(of(call, conf))),
    del: (call, conf) => del(call, conf, openRemovingContext(of(call, conf))),
    check: (call, conf) => check(call, conf, openContext(of(call, conf))),
    gc: (call, conf) => gc(call, conf, openRemovingContext(of(call, conf))),
    status: (call, conf) => status(call, conf, openContext(of(call, conf))),
  }
}
