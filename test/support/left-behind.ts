// SPDX-License-Identifier: Apache-2.0
// What a killed call leaves at work: the tools that it had started are ended by nobody, and on a busy machine they may
// only begin when the next call comes.

import { execaSync } from 'execa'
import type { Host } from './host.ts'

const longestMs = 30_000

/** Waits until no process is left in the node's namespace and in these of its pods. Throws after thirty seconds. */
export function waitForTools(host: Host, ...pods: readonly string[]): void {
  const names = [host.path, ...pods].map((path) => path.slice('/run/netns/'.length))
  const end = performance.now() + longestMs
  for (const name of names) {
    while (execaSync('ip', ['netns', 'pids', name]).stdout !== '') {
      if (performance.now() > end) throw new Error(`tools of a killed call are still at work in ${name}`)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
    }
  }
}
