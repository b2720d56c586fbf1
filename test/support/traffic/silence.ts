// SPDX-License-Identifier: Apache-2.0
// One TCP connection between two pods that carries a byte every 20 ms, echoed, or a new connection every 20 ms, and how long
// it was silent.

import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { until } from '../cluster/cluster.ts'

const echo = `require('net').createServer((s) => s.on('error', () => {}).setNoDelay().pipe(s))
  .listen(process.argv[1], '::', () => console.log('up'))`

const client = `
  const s = require('net').connect(...process.argv.slice(1))
  s.setNoDelay()
  s.on('connect', () => setInterval(() => s.write('.'), 20))
  s.on('data', (part) => console.log('echo'))
  for (const event of ['error', 'close']) s.on(event, (e) => console.log('broken ' + (e && e.code)))`

const dial = `
  setInterval(() => {
    const s = require('net').connect(...process.argv.slice(1))
    const tooLate = setTimeout(() => s.destroy(), 1000)
    s.on('connect', () => { console.log('echo'); s.end() })
    s.on('error', (e) => /REFUSED|RESET/.test(e.code) && console.log('broken ' + e.code))
    s.on('close', () => clearTimeout(tooLate))
  }, 20)`

/** A connection. `start` begins to measure; `longestMs`: of the silences since then, also of the one that lasts. */
export interface Silence {
  readonly start: () => void
  readonly longestMs: () => number
  /** Whether an echo came after `start`, and within the last 200 ms. */
  readonly isBack: () => boolean
  readonly broken: () => string | undefined
  readonly close: () => void
}

/** Connects a pod with another one's address. `from` and `to`: paths of network namespaces. */
export async function openStream(from: string, to: string, address: string): Promise<Silence> {
  return await openTraffic(from, to, { script: client, port: '7007', address })
}

/** A new connection every 20 ms; `broken` where one is refused or reset. */
export async function openDials(from: string, to: string, address: string): Promise<Silence> {
  return await openTraffic(from, to, { script: dial, port: '7008', address })
}

async function openTraffic(
  from: string,
  to: string,
  { script, port, address }: Readonly<Record<'script' | 'port' | 'address', string>>,
): Promise<Silence> {
  const state = { lastMs: 0, longestMs: 0, echoes: 0, broken: undefined as string | undefined, isUp: false }
  const server = start(to, echo, [port], () => {
    state.isUp = true
  })
  await until(() => state.isUp, 'the echo server')
  const stream = start(from, script, [port, address], (line) => {
    if (line.startsWith('broken')) state.broken ??= line
    else {
      const nowMs = performance.now()
      state.longestMs = Math.max(state.longestMs, nowMs - state.lastMs)
      state.lastMs = nowMs
      state.echoes += 1
    }
  })
  const close = () => {
    for (const child of [stream, server]) child.kill('SIGKILL')
  }
  await until(() => state.echoes > 0 || state.broken !== undefined, 'the first echo')
  return {
    start: () => Object.assign(state, { lastMs: performance.now(), longestMs: 0, echoes: 0 }),
    longestMs: () => Math.max(state.longestMs, performance.now() - state.lastMs),
    isBack: () => state.echoes > 0 && performance.now() - state.lastMs < 200,
    broken: () => state.broken,
    close,
  }
}

function start(netns: string, script: string, args: readonly string[], onLine: (line: string) => void): ChildProcess {
  const words = [`--net=${netns}`, '--', process.execPath, '-e', script, ...args]
  const child = spawn('nsenter', words, { stdio: ['ignore', 'pipe', 'inherit'] })
  createInterface(child.stdout).on('line', onLine)
  return child
}
