// SPDX-License-Identifier: Apache-2.0
// The edge: CNI_COMMAND set means a runtime calls, else a person. Whatever happens, stdout gets one
// JSON document or nothing, and nobody else writes to it. Builtins are imported at the top, so that
// the start-up snapshot holds them compiled; environment and input are read inside main only.

import { startupSnapshot } from 'node:v8'
import { toCniError } from './cni/error.ts'
import { currentVersion } from './cni/result.ts'
import { workMs } from './commands/call/context.ts'
import { type DispatchOutput, dispatch, failure } from './commands/call/dispatch.ts'
import { openKeeper } from './commands/record/keeper.ts'
import { handlers } from './commands/verbs/handlers.ts'
import { type Edge, warmUpForSnapshot } from './snapshot/warm-up.ts'
import { removeCallFiles } from './system/process/call-file.ts'
import { tallyCall } from './system/process/call-tally.ts'
import { nowMs } from './system/process/clock.ts'
import { loadBundle, ownTypes } from './system/process/executable.ts'
import { readStdin, reportIgnoredWords, writeAll } from './system/process/stdio.ts'
import { phase, startTrace, writeTrace } from './system/process/trace.ts'

// reallyExit skips exit handlers and pending asynchronous writes: everything was written synchronously.
const { reallyExit } = process as unknown as { reallyExit(code: number): never }

function main(): void {
  if (isCall(process)) runCni({ process, stdin: 0, stdout: 1, exit: reallyExit })
  else runCli()
}

/** A runtime gives no words: with ids of a container and none, only CNI_COMMAND was forgotten: error 4. */
function isCall({ env, argv }: Edge['process']): boolean {
  if (env['CNI_COMMAND'] !== undefined) return true
  return argv.length <= 2 && (env['CNI_CONTAINERID'] !== undefined || env['CNI_NETNS'] !== undefined)
}

/** Signals whose default ends a process (signal(7)), but those of its own faults. Node ignores PIPE and XFSZ. */
const endingSignals =
  'SIGTERM SIGINT SIGHUP SIGQUIT SIGUSR2 SIGALRM SIGVTALRM SIGPROF SIGXCPU SIGIO SIGPWR SIGSTKFLT'.split(' ')

function runCni(edge: Edge): void {
  const { process } = edge
  const keeper = openKeeper(process.env)
  const leave = (output: DispatchOutput) => leaveWith(output, edge, keeper.end)
  const failed = (error: unknown) => failure(error, currentVersion, process.env)
  useCheapStderr(process, keeper.onStderr)
  startTrace(process.env['TRESTLE_TRACE'])
  phase('read the configuration')
  const interruption = new AbortController()
  const onSignal = () => interruption.abort()
  for (const name of endingSignals) process.on(name, onSignal)
  process.on('uncaughtException', (error) => leave(failed(error)))
  process.on('unhandledRejection', (error) => leave(failed(error)))
  const startedMs = nowMs()
  const { signal } = interruption
  const stdin = (mostMs = workMs) => readStdin({ endsAtMs: startedMs + mostMs, signal }, edge.stdin)
  const input = { env: process.env, stdin, ownTypes: ownTypes(), onStdin: keeper.onStdin }
  dispatch(input, handlers(signal, startedMs)).then(leave, (error) => leave(failed(error)))
}

/**
 * Node makes a stream for stderr once a pipe is closed (net.Socket._destroy compares with it),
 * which costs a millisecond: a function that writes is enough for us. What it tells changes no answer.
 */
function useCheapStderr(process: Edge['process'], onText: (text: string) => void): void {
  const write = (text: string) => {
    onText(text)
    try {
      writeAll(2, text)
    } catch {
      // Nobody reads it any more.
    }
  }
  Object.defineProperty(process, 'stderr', { value: { write }, configurable: true })
}

/** What both bundles for people export: runs the words after the program's name, gives the exit code. */
type CliMain = (args: readonly string[]) => Promise<number>

function runCli(): void {
  const words = process.argv.slice(2)
  // The agent stays for as long as its node: what other commands have would be in memory beside it.
  loadBundle<CliMain>(words[0] === 'agent' ? 'agent.cjs' : 'cli.cjs')(words).then(reallyExit, (error: unknown) => {
    writeAll(2, `trestle: ${toCniError(error).message}\n`)
    reallyExit(3)
  })
}

function leaveWith(output: DispatchOutput, edge: Edge, keep: (output: DispatchOutput) => void): void {
  const { stdout, bytes, exitCode, teardown } = output
  const exit = (code: number) => {
    keep({ stdout, exitCode: code })
    leaveProcess(code, edge)
  }
  phase('answer')
  try {
    writeAll(edge.stdout, bytes ?? stdout)
  } catch {
    // The runtime closed its end: nobody is left to tell, and nobody knows of what was made.
    const end = () => exit(1)
    if (teardown === undefined) end()
    else teardown().then(end, end)
    return
  }
  if (exitCode !== 0) reportIgnoredWords()
  tally({ stdout, exitCode }, edge.process.env)
  exit(exitCode)
}

/** Counted when the runtime has its answer, from the start of the process. */
function tally({ stdout, exitCode }: DispatchOutput, env: NodeJS.ProcessEnv): void {
  tallyCall({
    verb: env['CNI_COMMAND'] ?? '',
    code: () => (exitCode === 0 ? 0 : (JSON.parse(stdout) as { code: number }).code),
    ms: nowMs(),
  })
}

function leaveProcess(exitCode: number, { exit }: Edge): void {
  writeTrace(exitCode)
  removeCallFiles()
  exit(exitCode)
}

if (startupSnapshot.isBuildingSnapshot()) {
  startupSnapshot.setDeserializeMainFunction(main)
  // When all modules are evaluated, also what the build puts behind them (scripts/snapshot-lean.cjs). The snapshot is
  // taken when nothing is left to do.
  queueMicrotask(() => void warmUpForSnapshot((edge) => isCall(edge.process) && runCni(edge)))
} else main()
