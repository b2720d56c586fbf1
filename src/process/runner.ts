// SPDX-License-Identifier: Apache-2.0
// Starts processes: no shell, a deadline, LC_ALL=C, nothing of the caller's environment but PATH, and a bound on what a
// process may print.

import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, closeSync, constants, openSync, statSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { CniError, Code } from '../cni/errors.ts'
import { stateRoot } from '../state/layout.ts'
import { type Deadline, nowMs } from './clock.ts'
import { callDescriptor, noteEnded, noteStarted, type ProcessKind } from './killed-calls.ts'
import { openStandardFiles, watchSize } from './unnamed-file.ts'

export interface Command {
  readonly file: string
  readonly args: readonly string[]
  /** A function: the process starts at once and waits for the text that is given to that function's argument. */
  readonly stdin?: string | ((give: (text: string) => void) => void)
  /** The whole environment; default: PATH and LC_ALL=C. */
  readonly env?: Readonly<Record<string, string>>
  /** Becomes descriptor 3; with `hasHostNetns` our own network namespace is descriptor 4. */
  readonly netnsFd?: number | undefined
  readonly hasHostNetns?: boolean
  /** Whether its work is done although it has not ended; asked each millisecond. It is killed then. */
  readonly isDone?: ((stdout: string) => boolean) | undefined
  readonly kind?: ProcessKind
  /** Ended after so many milliseconds: work that a call can do without. */
  readonly mostMs?: number
}

export interface Output {
  readonly code: number | undefined
  readonly signal?: string
  readonly stdout: string
  readonly stderr: string
}

/** Rejects with CniError 11 past the deadline, 106 when interrupted, 100 for a program that is not there. */
export type Run = (command: Command) => Promise<Output>

const outputLimitBytes = 64 * 1024 * 1024

/** A process that was killed is gone at once, but for one that waits in the kernel: nobody waits for that longer. */
const graceMs = 500

/** The tools live in sbin; a runtime's PATH often has none. The caller's directories come first. */
export function toolPath(): string {
  const path = process.env['PATH']
  const tools = '/usr/sbin:/usr/bin:/sbin:/bin'
  return path ? `${path}:${tools}` : tools
}

/** The file that is started for a program; undefined where there is none. */
export function findProgram(name: string): string | undefined {
  const files = toolPath()
    .split(':')
    .map((directory) => `${directory}/${name}`)
  return files.find(isExecutable)
}

/** A directory has an x, too. */
export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

export function runnerUntil(deadline: Deadline): Run {
  return (command) => {
    const leftMs = Math.min(deadline.endsAtMs - nowMs(), command.mostMs ?? Number.POSITIVE_INFINITY)
    if (leftMs <= 0) return Promise.reject(tooSlow(command))
    if (deadline.signal?.aborted) return Promise.reject(interrupted(command))
    return new Promise((resolve, reject) => start(command, leftMs, deadline.signal, { resolve, reject }))
  }
}

interface Settle {
  readonly resolve: (output: Output) => void
  readonly reject: (error: CniError) => void
}

function start(command: Command, leftMs: number, signal: AbortSignal | undefined, settle: Settle): void {
  const { child, files } = spawnChild(command)
  const closeFiles = () => {
    for (const file of files) file?.close()
  }
  if (child.pid === undefined) {
    // Without free descriptors the child has not even streams; the reason comes as an event.
    child.once('error', (error: NodeJS.ErrnoException) => {
      closeFiles()
      settle.reject(notStarted(command, error))
    })
    return
  }
  let reason: CniError | undefined
  let isSettled = false
  let grace: NodeJS.Timeout | undefined
  const end = (why: CniError) => {
    reason ??= why
    killGroup(child)
    // A grandchild may hold the pipes open for longer than we have.
    for (const stream of child.stdio.slice(0, 3)) stream?.destroy()
    grace ??= setTimeout(() => settle.reject(why), graceMs)
  }
  const timer = setTimeout(() => end(tooSlow(command)), leftMs)
  const onAbort = () => end(interrupted(command))
  signal?.addEventListener('abort', onAbort, { once: true })
  const reader = (at: 1 | 2) => {
    const file = files[at]
    return file ? () => file.read(outputLimitBytes) : collect(child.stdio[at], () => end(tooLong(command)))
  }
  const [stdout, stderr] = [reader(1), reader(2)]
  const sizeWatch = watchSize(files.slice(1), outputLimitBytes, () => end(tooLong(command)))
  const finish = () => {
    isSettled = true
    noteEnded(child.pid)
    clearTimeout(timer)
    // A timer that is left would stay in the start-up snapshot, and hold back those of every call.
    clearTimeout(grace)
    clearInterval(doneWatch)
    clearInterval(sizeWatch)
    signal?.removeEventListener('abort', onAbort)
    closeFiles()
  }
  // In the loop's next turn, so that what is in the pipes is read first; and only while it has not failed.
  const endIfDone = () => {
    if (isSettled || reason || child.signalCode || child.exitCode) return
    const out = stdout()
    if (out === undefined || stderr() !== '' || !command.isDone?.(out)) return
    killGroup(child)
    finish()
    // It is reaped by pid 1 when we have left; nobody waits for its end.
    child.unref()
    settle.resolve({ code: 0, stdout: out, stderr: '' })
  }
  const doneWatch = command.isDone && setInterval(() => setImmediate(endIfDone), 1)
  child.on('error', (error: NodeJS.ErrnoException) => {
    finish()
    settle.reject(notStarted(command, error))
  })
  child.on('close', (code, endSignal) => {
    const [out, err] = [stdout(), stderr()]
    finish()
    if (reason || out === undefined || err === undefined) return settle.reject(reason ?? tooLong(command))
    settle.resolve({ code: code ?? undefined, ...(endSignal ? { signal: endSignal } : {}), stdout: out, stderr: err })
  })
  // A child that exits without reading its input breaks the pipe; its exit status tells.
  child.stdin?.on('error', () => undefined)
  const give = (text: string) => giveAll(child.stdin, text)
  if (typeof command.stdin === 'function') command.stdin(give)
  else if (files[0] === undefined) give(command.stdin ?? '')
}

/** In a process group of its own, so that it can be ended with what it starts itself. */
function spawnChild(command: Command) {
  const { file, args, env, netnsFd, hasHostNetns, kind = 'tool' } = command
  const input = typeof command.stdin === 'function' ? undefined : (command.stdin ?? '')
  // Another plugin gets pipes, as from a runtime.
  const files = kind === 'delegate' ? [] : openStandardFiles(stateRoot(), { input, limitBytes: outputLimitBytes })
  const hostNetns = hasHostNetns ? openSync('/proc/self/ns/net', 'r') : undefined
  const inherited = [netnsFd, hostNetns, callDescriptor(kind)].filter((fd) => fd !== undefined)
  try {
    const child = spawn(file, args, {
      env: env ?? { PATH: toolPath(), LC_ALL: 'C' },
      stdio: [...[0, 1, 2].map((at) => files[at]?.fd ?? ('pipe' as const)), ...inherited],
      detached: true,
    })
    if (child.pid !== undefined) noteStarted(child.pid)
    return { child, files }
  } finally {
    if (hostNetns !== undefined) closeSync(hostNetns)
  }
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

function collect(stream: unknown, onTooLong: () => void): () => string {
  const chunks: Buffer[] = []
  let bytes = 0
  ;(stream as { on(event: 'data', listener: (chunk: Buffer) => void): unknown }).on('data', (chunk) => {
    bytes += chunk.length
    if (bytes > outputLimitBytes) onTooLong()
    else chunks.push(chunk)
  })
  return () => Buffer.concat(chunks).toString('utf8')
}

/**
 * Writes the whole input and its end at once: the end that `end()` writes leaves with the loop's next turn, behind the
 * forks of other tools.
 */
function giveAll(stdin: Writable | null, text: string): void {
  stdin?.write(text)
  if (stdin?.writableLength === 0) stdin.destroy()
  else stdin?.end()
}

function commandLine({ file, args }: Command): string {
  return [file, ...args].join(' ')
}

function tooSlow(command: Command): CniError {
  const end = command.mostMs === undefined ? "at the call's deadline" : `after ${command.mostMs} ms`
  return new CniError(Code.tryAgainLater, 'command-too-slow', `${command.file} did not finish in time`, {
    details: `${commandLine(command)}: ended ${end}`,
  })
}

function interrupted(command: Command): CniError {
  const message = `interrupted by a signal while running ${command.file}`
  return new CniError(Code.interrupted, 'call-interrupted', message, { details: commandLine(command) })
}

function tooLong(command: Command): CniError {
  const message = `${command.file} printed more than ${outputLimitBytes} bytes`
  return new CniError(Code.commandFailed, 'command-output-too-long', message, { details: commandLine(command) })
}

function notStarted(command: Command, error: NodeJS.ErrnoException): CniError {
  const isMissing = error.code === 'ENOENT'
  const cure = isMissing
    ? 'install it (Debian: iproute2, nftables, util-linux, procps), or add its directory to PATH'
    : `${error.message}; see its mode and the limits of the node (processes, open files, memory)`
  const [id, why] = isMissing ? ['command-missing', 'not found'] : ['command-not-started', error.code]
  const details = `${commandLine(command)}: ${cure}`
  return new CniError(Code.commandFailed, id, `cannot run ${command.file}: ${why}`, { details, cause: error })
}
