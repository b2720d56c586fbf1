// SPDX-License-Identifier: Apache-2.0
// The entry of the agent's bundle.

import { removeCallFiles } from '../../system/process/call-file.ts'
import { setHostRoot } from '../../system/process/process-identity.ts'
import { type Command, runCommand } from '../shell/command.ts'
import { standardOutput } from '../shell/output.ts'
import { requireRoot } from '../shell/self.ts'
import { runAgent } from './agent.ts'
import { agentCommand } from './command.ts'
import { keepHeapSmall, shrinkHeap } from './heap.ts'
import { type Settings, settingsOf } from './settings.ts'
import { runUninstall } from './uninstall.ts'

/** Runs the agent; the first argument is `agent`. Returns the exit code; never rejects. */
export async function main([, ...words]: readonly string[]): Promise<number> {
  try {
    return await runCommand(command, words, standardOutput())
  } finally {
    removeCallFiles()
  }
}

const command: Command = {
  ...agentCommand,
  run: async (input) => {
    const settings = settingsOf(input)
    requireRoot('agent', 'it changes routes and rules of the node')
    await untilSignal(settings)
    return 0
  },
}

/** Runs the agent until SIGTERM or SIGINT. */
async function untilSignal(settings: Settings): Promise<void> {
  keepHeapSmall()
  shrinkHeap()
  setHostRoot(settings.hostRoot)
  const interruption = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => interruption.abort())
  await (settings.isUninstall ? runUninstall : runAgent)(settings, interruption.signal)
}
