// SPDX-License-Identifier: Apache-2.0
// A call that is under way: its process, to send signals to, and a promise of what it left.

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, readlinkSync, realpathSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { environment, type Finished, type Host, trestle } from '../host.ts'
import type { Started } from '../locks/parallel.ts'
import { stateEnv } from '../state-layout.ts'

/**
 * Resolves when the executable waits for something: a quarter of a second long it is in the same system call, and not
 * only without a processor. Throws after thirty seconds.
 */
export async function atRest({ pid }: ChildProcess): Promise<void> {
  let [last, times] = ['', 0]
  for (const end = performance.now() + 30_000; times < 10; ) {
    const now = pid !== undefined && isTrestle(pid) ? read(`/proc/${pid}/syscall`) : ''
    times = now === last && /^\d/.test(now) ? times + 1 : 0
    last = now
    if (performance.now() > end) throw new Error(`process ${pid} never waits: ${now}`)
    await sleep(25)
  }
}

/**
 * Resolves when a call has ended, or waits for another one: for four tenths of a second no process that it has started is
 * at work, and it only looks now and then. One that waits for a processor is at work. Throws after thirty seconds.
 */
export async function endsOrWaits(call: Started): Promise<void> {
  const { pid } = call
  let isOver = false
  call.finally(() => {
    isOver = true
  })
  let looks: readonly boolean[] = []
  const end = performance.now() + 30_000
  while (!isOver && (looks.length < 40 || looks.filter((isAsleep) => isAsleep).length < 25)) {
    const isIdle = isTrestle(pid) && childrenOf(pid).every((each) => stateOf(each) === 'S')
    looks = isIdle ? [...looks.slice(-39), stateOf(pid) === 'S'] : []
    if (performance.now() > end) throw new Error(`process ${pid} neither ends nor waits`)
    await sleep(10)
  }
}

/**
 * Resolves when strace holds the call that it runs at a system call (`delay_enter`, `delay_exit`): a quarter of a second
 * long it is stopped at the same one. Throws after thirty seconds.
 */
export async function isHeld({ pid }: Started): Promise<void> {
  let [last, times] = ['', 0]
  for (const end = performance.now() + 30_000; times < 25; ) {
    const [traced = ''] = childrenOf(pid)
    const now = stateOf(traced) === 't' && isTrestle(traced) ? read(`/proc/${traced}/syscall`) : ''
    times = now !== '' && now === last ? times + 1 : 0
    last = now
    if (performance.now() > end) throw new Error(`strace ${pid} holds nothing`)
    await sleep(10)
  }
}

function childrenOf(pid: number): readonly string[] {
  return read(`/proc/${pid}/task/${pid}/children`)
    .split(' ')
    .filter((each) => each !== '')
}

/** `S` asleep, `R` at work or waiting for a processor, `t` stopped by a tracer; empty where it is gone. */
function stateOf(pid: number | string): string {
  const stat = read(`/proc/${pid}/stat`)
  return stat.slice(stat.lastIndexOf(')') + 2).charAt(0)
}

function isTrestle(pid: number | string): boolean {
  try {
    return readlinkSync(`/proc/${pid}/exe`) === realpathSync(trestle)
  } catch {
    return false
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** Starts a call, ADD unless `env` says another, and does not wait: whoever starts it ends it. `ended` tells what it left. */
export function startCall(host: Host, conf: unknown, env: Record<string, string>) {
  const all = environment('ADD', { env: { ...stateEnv(host), ...env } })
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
