// SPDX-License-Identifier: Apache-2.0
// Time, and who a process is.

import { readFileSync } from 'node:fs'
import { ownPidNamespace } from '../kernel/netns.ts'
import { bootId } from '../kernel/proc.ts'

/**
 * Milliseconds since this process began, whatever the machine's clock is set to. `performance` would bring observers and
 * histograms into the start-up snapshot: 1 % of the instructions of VERSION.
 */
export function nowMs(): number {
  return process.uptime() * 1000
}

/** When a call must be over (nowMs()), and the signal that ends it earlier. */
export interface Deadline {
  readonly endsAtMs: number
  readonly signal?: AbortSignal | undefined
}

/** Who wrote a file: tells a dead writer from a live one. A pid means nothing in another pid namespace. */
export interface ProcessIdentity {
  readonly pid: number
  /** Field 22 of /proc/PID/stat, in ticks since boot: tells a reused pid. */
  readonly startTime: string
  readonly bootId: string
  readonly pidNamespace: string
}

export function ownIdentity(): ProcessIdentity {
  return { pid: process.pid, startTime: startTimeOf('self') ?? '', bootId: bootId(), pidNamespace: ownPidNamespace() }
}

/** No call lasts longer: what is older has no live writer. */
const longestCallMs = 60_000

/** USER_HZ is 100 on every Linux (proc(5)). */
const tickMs = 10

/**
 * Whether the process has ended. `writtenMs`: when it wrote what names it (milliseconds since 1970). In another pid
 * namespace only the age tells. Throws what says nothing about the process, such as too many open files.
 */
export function hasEnded(identity: ProcessIdentity, writtenMs: number): boolean {
  if (identity.bootId !== bootId()) return true
  if (identity.pidNamespace !== ownPidNamespace()) return isOlder(identity, writtenMs, longestCallMs)
  const startTime = startTimeOf(String(identity.pid))
  return startTime === undefined || startTime !== identity.startTime
}

/** By the clock and by ticks since boot, which nobody sets: a clock that was set makes no live writer look old. */
export function isOlder({ startTime }: Pick<ProcessIdentity, 'startTime'>, writtenMs: number, ageMs: number): boolean {
  const betweenStartsMs = (Number(startTimeOf('self')) - Number(startTime || Number.NaN)) * tickMs
  return betweenStartsMs > ageMs && Math.abs(Date.now() - writtenMs) > ageMs
}

/** Undefined where there is no such process, or it has ended and waits for its parent. */
export function startTimeOf(pid: string): string | undefined {
  try {
    const [state, ...fields] = statOf(pid)
    return state === 'Z' || state === 'X' ? undefined : fields[18]
  } catch (error) {
    // ESRCH: it ended between open(2) and read(2).
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

/** The fields of /proc/PID/stat from the third on: the second is the command's name, which may hold anything. */
export function statOf(pid: string): readonly string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}
