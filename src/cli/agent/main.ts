// SPDX-License-Identifier: Apache-2.0
// The agent's bundle: what `trestle agent` loads.

import { removeCallFiles } from '../../system/process/call-file.ts'
import { setHostRoot } from '../../system/process/process-identity.ts'
import { runAgent } from './run/agent.ts'
import { runUninstall } from './run/uninstall.ts'
import type { Settings } from './settings/settings.ts'

/** Runs the agent until SIGTERM or SIGINT. Returns the exit code. */
export async function main(settings: Settings): Promise<number> {
  setHostRoot(settings.hostRoot)
  const interruption = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => interruption.abort())
  try {
    await (settings.isUninstall ? runUninstall : runAgent)(settings, interruption.signal)
    return 0
  } finally {
    removeCallFiles()
  }
}
