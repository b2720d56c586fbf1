// SPDX-License-Identifier: Apache-2.0
// A call that is under way: its process, to send signals to, and a promise of what it left.

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, readlinkSync, realpathSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { environment, type Finished, type Host, trestle } from './host.ts'

/**
 * Resolves when the executable waits for something: a quarter of a second long it is in the same system call, and not
 * only without a processor. Throws after thirty seconds.
 */
export async function atRest({ pid }: ChildProcess): Promise<void> {
  let [last, times] = ['', 0]
  for (const end = performance.now() + 30_000; times < 10; ) {
    const isOurs = readlinkSync(`/proc/${pid}/exe`) === realpathSync(trestle)
    const now = isOurs ? readFileSync(`/proc/${pid}/syscall`, 'utf8') : ''
    times = now === last && /^\d/.test(now) ? times + 1 : 0
    last = now
    if (performance.now() > end) throw new Error(`process ${pid} never waits: ${now}`)
    await sleep(25)
  }
}

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
