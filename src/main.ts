// SPDX-License-Identifier: Apache-2.0
// The edge: CNI_COMMAND set means a runtime calls, else a person. Whatever happens, stdout gets one
// JSON document or nothing, and nobody else writes to it. Builtins are imported at the top, so that
// the start-up snapshot holds them compiled; environment and input are read inside main only.

import { readSync, writeSync } from 'node:fs'
import { startupSnapshot } from 'node:v8'
import { type DispatchOutput, dispatch } from './cni/dispatch.ts'
import { CniCode, CniError, errorBody, toCniError } from './cni/error.ts'
import { currentVersion } from './cni/version.ts'
import { handlers } from './commands/handlers.ts'
import { loadCli } from './load-cli.ts'
import { warmUpForSnapshot } from './warm-up.ts'

const stdinLimitBytes = 4 * 1024 * 1024

// reallyExit skips exit handlers and pending asynchronous writes: everything was written synchronously.
const { reallyExit } = process as unknown as { reallyExit(code: number): never }

function main(): void {
  if (process.env['CNI_COMMAND'] === undefined) runCli()
  else runCni()
}

function runCni(): void {
  useCheapStderr()
  const interruption = new AbortController()
  const onSignal = () => interruption.abort()
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  process.on('SIGHUP', onSignal)
  process.on('uncaughtException', (error) => leave(failed(error)))
  process.on('unhandledRejection', (error) => leave(failed(error)))
  dispatch({ env: process.env, stdin: readStdin }, handlers(interruption.signal)).then(leave, (error) =>
    leave(failed(error)),
  )
}

/**
 * Node makes a stream for stderr once a pipe is closed (net.Socket._destroy compares with it),
 * which costs a millisecond: a function that writes is enough for us.
 */
function useCheapStderr(): void {
  const write = (text: string) => writeAll(2, text)
  Object.defineProperty(process, 'stderr', { value: { write }, configurable: true })
}

function runCli(): void {
  loadCli()(process.argv.slice(2)).then(reallyExit, (error: unknown) => {
    writeAll(2, `trestle: ${toCniError(error).message}\n`)
    reallyExit(3)
  })
}

function leave({ stdout, exitCode }: DispatchOutput): never {
  try {
    writeAll(1, stdout)
  } catch {
    // The runtime closed its end: nobody is left to tell.
    reallyExit(1)
  }
  return reallyExit(exitCode)
}

function failed(error: unknown): DispatchOutput {
  return { stdout: `${JSON.stringify(errorBody(toCniError(error), currentVersion))}\n`, exitCode: 1 }
}

/** All of standard input. Throws CniError 5 past 4 MiB: the largest real one is a GC of a full node, 0.1 MiB. */
function readStdin(): string {
  const chunks: Buffer[] = []
  let bytes = 0
  for (;;) {
    const chunk = Buffer.allocUnsafe(64 * 1024)
    const got = whenReady(() => readSync(0, chunk))
    if (got === 0) return Buffer.concat(chunks).toString('utf8')
    bytes += got
    if (bytes > stdinLimitBytes)
      throw new CniError(CniCode.ioFailure, `the configuration on stdin is longer than ${stdinLimitBytes} bytes`)
    chunks.push(chunk.subarray(0, got))
  }
}

function writeAll(fd: number, text: string): void {
  const bytes = Buffer.from(text)
  let at = 0
  while (at < bytes.length) at += whenReady(() => writeSync(fd, bytes, at))
}

/** A pipe may be non-blocking: EAGAIN is tried again a millisecond later. */
function whenReady(attempt: () => number): number {
  for (;;) {
    try {
      return attempt()
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EOF') return 0
      if (code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}

if (startupSnapshot.isBuildingSnapshot()) {
  startupSnapshot.setDeserializeMainFunction(main)
  // The snapshot is taken when nothing is left to do.
  void warmUpForSnapshot()
} else main()
