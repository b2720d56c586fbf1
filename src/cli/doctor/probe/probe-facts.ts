// SPDX-License-Identifier: Apache-2.0
// What the throw-away pods of `trestle doctor --probe` are to try, and what came of it.

import type { NetworkList } from '../../node/list.ts'
import type { KnownCause } from '../../shell/report.ts'

/** What a step is about: two calls of CNI, and what is reached between them. */
export type ProbeTarget = 'add' | 'node' | 'gateway' | 'pod' | 'outside' | 'dns' | 'host-port' | 'del'

/** One thing that was tried. `detail`: why it failed or was not tried; `known`: the cause, where one is seen. */
export interface ProbeStep {
  readonly what: string
  readonly target: ProbeTarget
  readonly outcome: 'ok' | 'failed' | 'skipped'
  readonly detail?: string
  readonly known?: KnownCause
}

/** What the pods of one list had. `file`: its name in the directory of the runtime. */
export interface ProbeFacts {
  readonly network: string
  readonly file: string
  readonly steps: readonly ProbeStep[]
}

/** What the process that makes the pods is told. `cniPath`: the directories of plugins, with : between. */
export interface ProbeRequest {
  readonly network: NetworkList
  readonly cniPath: string
}
