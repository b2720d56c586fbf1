// SPDX-License-Identifier: Apache-2.0
// Who wrote a state file: locks and records put in place by hand as this process, or one that nobody
// here can look at, would have left them.

import { mkdirSync, readFileSync, readlinkSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { stateOf } from '../state-layout.ts'

/** This process, which lives as long as the test. */
export function livingStamp() {
  const stat = readFileSync('/proc/self/stat', 'latin1')
  return {
    pid: process.pid,
    startTime: stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '',
    bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim(),
    pidNamespace: readlinkSync('/proc/self/ns/pid'),
  }
}

/**
 * When a process of long ago started, in ticks since boot (proc_pid_stat(5), field 22): a day before it, since the
 * machine may have started just now.
 */
export const startedLongAgo = '-8640000'

/** A process of another pid namespace: nothing here tells whether it lives. */
export function unseenStamp() {
  return { ...livingStamp(), pid: 7, startTime: startedLongAgo, pidNamespace: 'pid:[1]' }
}

/** Makes a lock's file as its holder has it. Let it go with the returned function. */
export function holdLock(file: string, holder: object = livingStamp()): () => void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  writeFileSync(file, JSON.stringify({ ...holder, purpose: 'hold it for a test' }), { mode: 0o600 })
  return () => rmSync(file, { force: true })
}

/** Makes a file look as if it had been written an hour ago. */
export function makeOld(file: string): void {
  const then = new Date(Date.now() - 3_600_000)
  utimesSync(file, then, then)
}

/** Makes a finished record one of a call that is not over. `writer`: in place of who wrote it. */
export function makePending(state: ReturnType<typeof stateOf>, id: string, writer?: object): void {
  mkdirSync(dirname(state.pending(id)), { recursive: true, mode: 0o700 })
  renameSync(state.finished(id), state.pending(id))
  if (writer !== undefined) rewrite(state.pending(id), (record) => ({ ...record, writer }))
}

/** Changes the JSON object in a file, in place: links to it see the change too. */
export function rewrite(file: string, change: (value: Record<string, unknown>) => object): void {
  const value = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
  writeFileSync(file, JSON.stringify(change(value)))
}

/** Waits until `isSo`; fails after thirty seconds, naming `what`. */
export async function until(what: string, isSo: () => boolean): Promise<void> {
  const end = performance.now() + 30_000
  while (!isSo()) {
    if (performance.now() > end) throw new Error(`never came: ${what}`)
    await sleep(10)
  }
}
