// SPDX-License-Identifier: Apache-2.0
// A call that is under way: its process, to send signals to, and a promise of what it left.

import { spawn } from 'node:child_process'
import { environment, type Finished, type Host, trestle } from './host.ts'

/** Starts a call, ADD unless `env` says another, and does not wait: whoever starts it ends it. `ended` tells what it left. */
export function startCall(host: Host, conf: unknown, env: Record<string, string>) {
  const all = environment('ADD', { env: { TRESTLE_STATE_DIR: host.stateDir, ...env } })
  const child = spawn('nsenter', [`--net=${host.path}`, '--', trestle], { env: all })
  const output = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => {
    output.stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    output.stderr += chunk
  })
  const ended = new Promise<Finished & { signal: string | null }>((resolve) => {
    child.on('close', (code, signal) => {
      resolve({
        code: code ?? -1,
        signal,
        ...output,
        json: /^\{/.test(output.stdout) ? JSON.parse(output.stdout) : undefined,
      })
    })
  })
  child.stdin.on('error', () => undefined)
  child.stdin.end(JSON.stringify(conf))
  return { child, ended }
}
