// SPDX-License-Identifier: Apache-2.0
// The timeline of one call: with TRESTLE_TRACE=FILE each call adds its lines to that file (docs/contributing.md,
// "Where the time of a call goes"). A line is an event of Chrome's trace format; times are microseconds of
// CLOCK_MONOTONIC, the same clock in every process. The variable is the runtime's or a person's: no pod and no
// configuration can set it. Without it nothing is noted, loaded or asked for.

import type { ChildProcess } from 'node:child_process'
import { closeSync, constants, fstatSync, openSync } from 'node:fs'
import { nowMs } from './clock.ts'
import { writeAll } from './stdio.ts'

/** An event as it is written: `X` has a duration, `i` is a moment, `M` names a track (`tid`). */
interface TraceEvent {
  readonly name: string
  readonly cat?: 'call' | 'phase' | 'fork' | 'stage' | 'tool'
  readonly ph: 'X' | 'i' | 'M'
  readonly tid: number
  readonly ts: number
  readonly dur?: number
  readonly args?: object
}

interface Trace {
  readonly file: string
  readonly events: TraceEvent[]
  /** Tools that are at work, each with what notes its end. */
  readonly tools: Map<ChildProcess, (args: object) => void>
  phase: { readonly name: string; readonly ts: number }
  tracks: number
}

/** A trace that somebody has forgotten must not fill a disk. */
const mostBytes = 64 * 1024 * 1024
const mainTrack = 0

let trace: Trace | undefined

/** Begins the timeline where the variable asks for one, at the start of the process. */
export function startTrace(file = ''): void {
  if (file === '') return
  trace = { file, events: [], tools: new Map(), phase: { name: 'start', ts: nowUs() - sinceStartUs() }, tracks: 0 }
  nameTrack(mainTrack, 'main thread')
}

export function phase(name: string): void {
  if (trace === undefined) return
  const ts = nowUs()
  trace.events.push({ ...trace.phase, cat: 'phase', ph: 'X', tid: mainTrack, dur: ts - trace.phase.ts })
  trace.phase = { name, ts }
}

/** Something that goes on beside others begins, on a track of its own; what is returned notes its end. */
export function span(name: string): () => void {
  if (trace === undefined) return nothing
  trace.tracks += 1
  const [tid, ts] = [trace.tracks, nowUs()]
  nameTrack(tid, name)
  return () => trace?.events.push({ name, cat: 'stage', ph: 'X', tid, ts, dur: nowUs() - ts })
}

export function inputWritten(child: ChildProcess): void {
  if (trace === undefined || child.pid === undefined) return
  trace.events.push({ name: 'input written', cat: 'tool', ph: 'i', tid: child.pid, ts: nowUs() })
}

/** Adds the timeline to its file. A failure is reported on stderr: nobody's network depends on it. */
export function writeTrace(exitCode: number): void {
  if (trace === undefined) return
  const { file, events, tools } = trace
  phase('')
  for (const note of tools.values()) note({ end: 'not waited for' })
  const { CNI_COMMAND: verb, CNI_CONTAINERID: containerId, CNI_IFNAME: ifName } = process.env
  const args = { verb, containerId, ifName, exitCode }
  const [start] = events.filter(({ ph }) => ph === 'X')
  const [ts, tid] = [start?.ts ?? 0, mainTrack]
  const whole: TraceEvent = { name: 'call', cat: 'call', ph: 'X', tid, ts, dur: nowUs() - ts, args }
  const lines = [whole, ...events].map((event) => `${JSON.stringify({ ...event, pid: process.pid })}\n`)
  trace = undefined
  try {
    append(file, lines.join(''))
  } catch (error) {
    process.stderr.write(`trestle: TRESTLE_TRACE: ${(error as Error).message}\n`)
  }
}

function nothing(): void {}

/** A tool is about to be forked, which the main thread stands still for; what is returned notes the child. */
export function forking(): (child: ChildProcess) => void {
  if (trace === undefined) return nothing
  const ts = nowUs()
  return (child) => {
    trace?.events.push({ name: 'fork', cat: 'fork', ph: 'X', tid: mainTrack, ts, dur: nowUs() - ts })
    if (child.pid !== undefined) watch(child, ts)
  }
}

function watch(child: ChildProcess, ts: number): void {
  const ended = (args: object) => {
    trace?.tools.delete(child)
    const { pid: tid = -1, spawnargs } = child
    const name = spawnargs.join(' ')
    nameTrack(tid, name)
    trace?.events.push({ name, cat: 'tool', ph: 'X', tid, ts, dur: nowUs() - ts, args })
  }
  trace?.tools.set(child, ended)
  child.once('close', (code, signal) => ended({ code, ...(signal && { signal }) }))
}

function nameTrack(tid: number, name: string): void {
  trace?.events.push({ name: 'thread_name', ph: 'M', tid, ts: 0, args: { name } })
}

function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

function sinceStartUs(): number {
  return Math.round(nowMs() * 1000)
}

/** To a regular file of our own alone, made with mode 600. One write is whole beside others' (open(2), O_APPEND). */
function append(file: string, text: string): void {
  if (!file.startsWith('/')) throw new Error(`${file} is not an absolute path`)
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants
  const fd = openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600)
  try {
    const stat = fstatSync(fd)
    const isOurs = stat.isFile() && stat.uid === process.geteuid?.() && stat.nlink === 1 && (stat.mode & 0o022) === 0
    if (!isOurs) throw new Error(`${file} is not a file of ours alone`)
    if (stat.size > mostBytes) throw new Error(`${file} has more than ${mostBytes} bytes`)
    writeAll(fd, text)
  } finally {
    closeSync(fd)
  }
}
