// SPDX-License-Identifier: Apache-2.0
// The only door to other programs: no shell, a deadline, LC_ALL=C so that tools/command-error.ts can read
// what they say, and a bound on what they may print.

import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Writable } from 'node:stream'
import type { Command as CoreCommand } from '../../../src/process/runner.ts'
import { openStandardFiles, watchSize } from '../../../src/process/unnamed-file.ts'
import { CniError } from '../../cni/error.ts'
import { stateRoot } from '../files/state.ts'
import type { Starter } from './call-file.ts'
import { nowMs } from './clock.ts'
import { noteExecution, noteInput } from './executions.ts'
import { onHost, pathWithTools } from './programs.ts'
import { forking, inputWritten } from './trace.ts'

/** One process to run. */
export type Command = CoreCommand & { readonly hasHome?: boolean; readonly isInFiles?: boolean }

export interface Output {
  readonly code: number | undefined
  readonly signal?: string
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command. Rejects with CniError 11 past the deadline, 106 when interrupted, 100 for a missing file. */
export type Run = (command: Command) => Promise<Output>

/** When a call must be over (nowMs(), milliseconds), and the signal that ends it earlier. */
export interface Deadline {
  readonly endsAtMs: number
  readonly signal?: AbortSignal
}

const outputLimitBytes = 64 * 1024 * 1024

/** What was ended is gone at once, but for one that waits in the kernel: nobody waits for that longer than this. */
const graceMs = 500

const watchMs = 1

/** A runner that ends what it runs at the deadline. `starter`: marks the processes as those of a call. */
export function runnerUntil(deadline: Deadline, starter?: Starter): Run {
  return (command) => {
    const leftMs = Math.min(deadline.endsAtMs - nowMs(), command.mostMs ?? Number.POSITIVE_INFINITY)
    if (leftMs <= 0) return Promise.reject(timedOut(command))
    if (deadline.signal?.aborted) return Promise.reject(interrupted(command))
    return new Promise((resolve, reject) =>
      start(command, { leftMs, signal: deadline.signal, starter }, noteExecution(command, { resolve, reject })),
    )
  }
}

/** The same runner with input and output of tools in files without a name; another plugin gets its pipes. */
export function inFiles(run: Run): Run {
  return (command) => run(command.kind === 'delegate' ? command : { ...command, isInFiles: true })
}

interface Settle {
  readonly resolve: (output: Output) => void
  readonly reject: (error: CniError) => void
}

interface Limits {
  readonly leftMs: number
  readonly signal: AbortSignal | undefined
  readonly starter: Starter | undefined
}

function start(command: Command, limits: Limits, settle: Settle): void {
  const { child, files, isGone } = spawned(command, limits.starter)
  if (child.pid === undefined) {
    // Without free descriptors the child has not even streams; the reason comes as an event.
    child.once('error', (error: NodeJS.ErrnoException) => {
      isGone()
      settle.reject(notStarted(command, error))
    })
    return
  }
  const ended = { reason: undefined as CniError | undefined, isSettled: false }
  const end = (reason: CniError) => {
    ended.reason ??= reason
    killGroup(child)
    // What it started itself may hold the pipes open for longer than we have.
    for (const stream of child.stdio.slice(0, 3)) stream?.destroy()
    setTimeout(() => settle.reject(reason), graceMs).unref()
  }
  const timer = setTimeout(() => end(timedOut(command)), limits.leftMs)
  const onAbort = () => end(interrupted(command))
  limits.signal?.addEventListener('abort', onAbort, { once: true })
  const printed = (at: 1 | 2) => {
    const file = files[at]
    return file ? () => file.read(outputLimitBytes) : collect(child.stdio[at], () => end(tooMuch(command)))
  }
  const [stdout, stderr] = [printed(1), printed(2)]
  const bound = watchSize(files, outputLimitBytes, () => end(tooMuch(command)))
  const finish = () => {
    ended.isSettled = true
    isGone()
    clearTimeout(timer)
    clearInterval(watch)
    clearInterval(bound)
    limits.signal?.removeEventListener('abort', onAbort)
  }
  const watch = watchFor(command, child, () => {
    if (ended.isSettled) return
    const out = stdout()
    if (ended.reason || out === undefined || stderr() !== '' || !command.isDone?.(out)) return
    killGroup(child)
    finish()
    settle.resolve({ code: 0, stdout: out, stderr: '' })
  })
  child.on('error', (error: NodeJS.ErrnoException) => {
    finish()
    settle.reject(notStarted(command, error))
  })
  child.on('close', (code, signal) => {
    const [out, err] = [stdout(), stderr()]
    finish()
    if (ended.reason || out === undefined || err === undefined) return settle.reject(ended.reason ?? tooMuch(command))
    settle.resolve({ code: code ?? undefined, ...(signal ? { signal } : {}), stdout: out, stderr: err })
  })
  // A child that exits without reading its input breaks the pipe; its exit status tells the story.
  child.stdin?.on('error', () => undefined)
  const give = (text: string) => {
    giveAll(child.stdin, text)
    inputWritten(child)
    noteInput(command, text)
  }
  if (typeof command.stdin === 'function') command.stdin(give)
  else give(command.stdin ?? '')
}

/**
 * Calls `look` again and again where a process can be done before it ends, until it has failed: also after its end,
 * while others hold its pipes. What is in these is read first.
 */
function watchFor({ isDone }: Command, child: ChildProcess, look: () => void): NodeJS.Timeout | undefined {
  const lookUnlessFailed = () => {
    if (!child.signalCode && !child.exitCode) look()
  }
  return isDone && setInterval(() => setImmediate(lookUnlessFailed), watchMs)
}

/** In a process group of its own, so that it can be ended with what it starts itself. */
function spawned(command: Command, starter: Starter | undefined) {
  const { env, netnsFd, hasHome, kind = 'tool' } = command
  const { file, args } = onHost(command)
  const starting = starter?.(kind)
  const input = typeof command.stdin === 'function' ? undefined : (command.stdin ?? '')
  const files = command.isInFiles ? openStandardFiles(stateRoot(), { input, limitBytes: outputLimitBytes }) : []
  const home = hasHome ? openSync('/proc/self/ns/net', 'r') : undefined
  const isGone = () => {
    starting?.ended()
    for (const each of files) each?.close()
  }
  const inherited = [netnsFd, home, starting?.fd].filter((fd) => fd !== undefined)
  try {
    const forked = forking()
    const child = spawn(file, args, {
      env: env ?? { PATH: pathWithTools(), LC_ALL: 'C' },
      stdio: [...[0, 1, 2].map((at) => files[at]?.fd ?? ('pipe' as const)), ...inherited],
      detached: true,
    })
    forked(child)
    if (child.pid !== undefined) starting?.started(child.pid)
    return { child, files, isGone }
  } catch (error) {
    isGone()
    throw error
  } finally {
    if (home !== undefined) closeSync(home)
  }
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

type Readable = { on(event: 'data', listener: (chunk: Buffer) => void): unknown }

function collect(stream: unknown, onTooMuch: () => void): () => string {
  const chunks: Buffer[] = []
  let bytes = 0
  ;(stream as Readable).on('data', (chunk) => {
    bytes += chunk.length
    if (bytes > outputLimitBytes) onTooMuch()
    else chunks.push(chunk)
  })
  return () => Buffer.concat(chunks).toString('utf8')
}

function commandLine(command: Command): string {
  return [command.file, ...command.args].join(' ')
}

function timedOut(command: Command): CniError {
  const end = command.mostMs === undefined ? "at the call's deadline" : `after ${command.mostMs} ms`
  return new CniError('command-too-slow', `${command.file} did not finish in time`, {
    details: `${commandLine(command)}: ended ${end}`,
  })
}

function interrupted(command: Command): CniError {
  return new CniError('call-interrupted', `interrupted by a signal while running ${command.file}`, {
    details: commandLine(command),
  })
}

function tooMuch(command: Command): CniError {
  return new CniError('command-output-too-long', `${command.file} printed more than ${outputLimitBytes} bytes`, {
    details: commandLine(command),
  })
}

function notStarted(command: Command, error: NodeJS.ErrnoException): CniError {
  const missing = error.code === 'ENOENT'
  const hint = missing
    ? `install it (Debian: iproute2, nftables, util-linux), or add its directory to PATH`
    : `${error.message}; see its mode and the limits of the node (processes, open files, memory)`
  const id = missing ? 'command-missing' : 'command-not-started'
  return new CniError(id, `cannot run ${command.file}: ${missing ? 'not found' : error.code}`, {
    details: `${commandLine(command)}: ${hint}`,
    cause: error,
  })
}

/**
 * Writes all of an input, and its end, which are with the process when this returns. The end that `end` writes leaves
 * with the loop's next turn: other processes are started before that, while this one waits for it. What finds no room
 * in the pipe leaves later.
 */
function giveAll(stdin: Writable | null, text: string): void {
  stdin?.write(text)
  // The text is in the pipe: it can be closed.
  if (stdin?.writableLength === 0) stdin.destroy()
  else stdin?.end()
}

// Starting tools before their input is known. Loading `ip`, or `nsenter` and `ip`, takes longer than most
// batches, so they load beside our own work, and the pod's beside the host's.

export interface Prestarted {
  /** Like the runner they were started with; the first call of each program gets the waiting process. */
  readonly run: Run
  /** Starts more of them, while others keep us waiting. */
  readonly start: (commands: readonly Command[]) => void
  /**
   * Ends what nobody took: it reads an end of input. Resolves when they are gone; never rejects. Also for when links
   * were taken away meanwhile: tc of iproute2 7 learns the links' numbers when it starts, not when it reads.
   */
  readonly discard: () => Promise<void>
}

interface Waiting {
  readonly command: Command
  readonly give: (stdin: string) => void
  readonly output: Promise<Output>
}

/** Starts `commands` without their input. For programs that do nothing on empty input: `ip -batch -` is one. */
export function prestart(run: Run, commands: readonly Command[]): Prestarted {
  const waiting = new Set(commands.map((command) => startOne(run, command)))
  return {
    run: (asked) => {
      const found = [...waiting].find(({ command }) => isSameProgram(asked, command))
      if (found === undefined || typeof asked.stdin !== 'string') return run(asked)
      waiting.delete(found)
      found.give(asked.stdin)
      return found.output
    },
    start: (more) => {
      for (const command of more) waiting.add(startOne(run, command))
    },
    discard: async () => {
      const unused = [...waiting]
      waiting.clear()
      for (const { give } of unused) give('')
      await Promise.allSettled(unused.map(({ output }) => output))
    },
  }
}

function startOne(run: Run, command: Command): Waiting {
  // Where it could not be started nobody takes it.
  let give = (_: string): void => undefined
  const output = run({
    ...command,
    stdin: (giveIt) => {
      give = giveIt
    },
  })
  // A failure is told to whoever takes the process.
  output.catch(() => undefined)
  // Written at once, not in a microtask: other tools are started in the same turn, and each fork holds us up.
  return { command, give: (text) => give(text), output }
}

function isSameProgram(a: Command, b: Command): boolean {
  return (
    a.file === b.file &&
    a.netnsFd === b.netnsFd &&
    a.env === b.env &&
    a.args.length === b.args.length &&
    a.args.every((word, at) => word === b.args[at])
  )
}
