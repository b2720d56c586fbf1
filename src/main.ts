// SPDX-License-Identifier: Apache-2.0
// The edge: with CNI_COMMAND set a runtime calls, else a person. Whatever happens, stdout gets one JSON document or
// nothing. Builtins are imported at the top, so that the start-up snapshot holds them compiled; environment and input are
// read inside main only.

import { startupSnapshot } from 'node:v8'
import { type CallOutput, dispatch, failure } from './cni/dispatch.ts'
import { toCniError } from './cni/errors.ts'
import { currentVersion } from './cni/results.ts'
import { nowMs } from './process/clock.ts'
import { loadBundle, ownTypes } from './process/executable.ts'
import { removeCallFiles } from './process/killed-calls.ts'
import { workMs } from './process/machine.ts'
import { readStdin, writeAll } from './process/stdio.ts'
import { openRecorder, type Recorder } from './recording/recorder.ts'
import { type Edge, warmUpForSnapshot } from './snapshot/warm-up.ts'
import { verbsOf } from './verbs/verbs.ts'

// Exit handlers and pending asynchronous writes are skipped: everything was written synchronously.
const { reallyExit } = process as unknown as { reallyExit(code: number): never }

function main(): void {
  if (isCall(process)) runCall({ process, stdin: 0, stdout: 1, exit: reallyExit })
  else runCommand()
}

/** A runtime gives no words: with ids of a container and none, only CNI_COMMAND was forgotten (error 4). */
function isCall({ env, argv }: Edge['process']): boolean {
  if (env['CNI_COMMAND'] !== undefined) return true
  return argv.length <= 2 && (env['CNI_CONTAINERID'] !== undefined || env['CNI_NETNS'] !== undefined)
}

/** Signals whose default ends a process (signal(7)), but those of its own faults. Node ignores PIPE and XFSZ. */
const endingSignals =
  'SIGTERM SIGINT SIGHUP SIGQUIT SIGUSR2 SIGALRM SIGVTALRM SIGPROF SIGXCPU SIGIO SIGPWR SIGSTKFLT'.split(' ')

function runCall(edge: Edge): void {
  const { process } = edge
  const recorder = openRecorder(process.env)
  const leave = (output: CallOutput) => leaveWith(output, edge, recorder)
  const fail = (error: unknown) => leave(failure(error, currentVersion, process.env))
  useCheapStderr(process, recorder)
  const interruption = new AbortController()
  for (const name of endingSignals) process.on(name, () => interruption.abort())
  process.on('uncaughtException', fail)
  process.on('unhandledRejection', fail)
  const startedMs = nowMs()
  const { signal } = interruption
  const stdin = (mostMs = workMs) => readStdin({ endsAtMs: startedMs + mostMs, signal }, edge.stdin)
  const input = { env: process.env, stdin, ownTypes: ownTypes(), onStdin: recorder.onStdin }
  dispatch(input, verbsOf(signal, startedMs, recorder)).then(leave, fail)
}

/** Node makes a stream for stderr once a pipe is closed (net.Socket._destroy compares with it): a millisecond. */
function useCheapStderr(process: Edge['process'], recorder: Recorder): void {
  const write = (text: string) => {
    recorder.onStderr(text)
    try {
      writeAll(2, text)
    } catch {
      // Nobody reads it any more.
    }
  }
  Object.defineProperty(process, 'stderr', { value: { write }, configurable: true })
}

function leaveWith({ stdout, bytes, exitCode, takeBack }: CallOutput, edge: Edge, recorder: Recorder): void {
  const exit = (code: number) => {
    recorder.end(stdout, code)
    removeCallFiles()
    edge.exit(code)
  }
  try {
    writeAll(edge.stdout, bytes ?? stdout)
  } catch {
    // The runtime has closed its end: nobody knows of what was made.
    const end = () => exit(1)
    if (takeBack === undefined) end()
    else takeBack().then(end, end)
    return
  }
  exit(exitCode)
}

/** What both bundles for people export: runs the words behind the program's name, gives the exit code. */
type CommandMain = (words: readonly string[]) => Promise<number>

function runCommand(): void {
  const words = process.argv.slice(2)
  // The agent stays for as long as its node: the other commands would be in memory beside it.
  loadBundle<CommandMain>(words[0] === 'agent' ? 'agent.cjs' : 'cli.cjs')(words).then(reallyExit, (error: unknown) => {
    writeAll(2, `trestle: ${toCniError(error).message}\n`)
    reallyExit(3)
  })
}

if (startupSnapshot.isBuildingSnapshot()) {
  startupSnapshot.setDeserializeMainFunction(main)
  // When all modules are evaluated, also what the build puts behind them (scripts/snapshot-lean.cjs).
  queueMicrotask(() => void warmUpForSnapshot((edge) => isCall(edge.process) && runCall(edge)))
} else main()
