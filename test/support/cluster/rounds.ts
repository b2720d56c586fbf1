// SPDX-License-Identifier: Apache-2.0
// Rounds of the agent on a node, each when a test asks for it (round-driver.ts).

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { buildSync } from 'esbuild'
import type { Host } from '../host.ts'
import { stateEnv } from '../state-layout.ts'
import { type AgentFiles, agentFiles } from './cluster.ts'
import type { RoundAnswer, RoundOrder } from './round-driver.ts'

/** What asks for rounds. `files`: where the configuration is written. */
export interface Rounds {
  readonly files: AgentFiles
  readonly round: (order: RoundOrder) => Promise<RoundAnswer>
  readonly close: () => void
}

/** Starts the driver on a node. */
export function openRounds(host: Host): Rounds {
  const files = agentFiles()
  const driver = `${files.root}/round-driver.mjs`
  buildSync({
    entryPoints: [new URL('round-driver.ts', import.meta.url).pathname],
    outfile: driver,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node26',
    // Packages that call require().
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)" },
    logLevel: 'error',
  })
  const words = [process.execPath, driver, `${files.root}/net.d`, `${files.root}/bin`]
  const child = spawn('nsenter', [`--net=${host.path}`, '--', ...words], {
    env: { PATH: process.env['PATH'], ...stateEnv(host) },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const waiting: { settle: (answer: RoundAnswer) => void; fail: (error: Error) => void }[] = []
  let said: string[] = []
  createInterface(child.stdout).on('line', (line) => {
    const told = JSON.parse(line)
    // A line of the agent's log.
    if ('time' in told) return void said.push(told.message)
    waiting.shift()?.settle({ ...told, said })
    said = []
  })
  child.on('close', () => {
    for (const { fail } of waiting.splice(0)) fail(new Error('the driver of rounds has ended'))
  })
  return {
    files,
    round: (order) =>
      new Promise((settle, fail) => {
        waiting.push({ settle, fail })
        child.stdin.write(`${JSON.stringify(order)}\n`)
      }),
    close: () => {
      child.kill('SIGKILL')
      files.remove()
    },
  }
}
