// SPDX-License-Identifier: Apache-2.0
// Processes that take a lock when told to (lock-driver.ts), with a directory for the lock.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { buildSync } from 'esbuild'
import type { Answer, Job } from './lock-driver.ts'

/** One process. `ask` sends a job and waits for its answer; undefined when the process ended first. */
export interface LockProcess {
  readonly pid: number
  readonly ask: (job: Job) => Promise<Answer | undefined>
  readonly kill: () => Promise<void>
}

/** Bundles the driver and makes a directory. Close it: it ends every process it started. */
export function openLockProcesses() {
  const directory = mkdtempSync(`${tmpdir()}/trestle-lock-`)
  const driver = `${directory}/driver.mjs`
  buildSync({
    entryPoints: [new URL('lock-driver.ts', import.meta.url).pathname],
    outfile: driver,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node26',
  })
  const started: LockProcess[] = []
  /** Starts a process; `before` goes before its command line, such as strace and its options. */
  const start = (before: readonly string[] = []): LockProcess => {
    const [file = '', ...args] = [...before, process.execPath, driver]
    const one = lockProcess(spawn(file, args, { stdio: ['pipe', 'pipe', 'ignore'] }))
    started.push(one)
    return one
  }
  const close = async (): Promise<void> => {
    await Promise.all(started.map((each) => each.kill()))
    rmSync(directory, { recursive: true, force: true })
  }
  return { directory, start, close }
}

function lockProcess(child: ChildProcess): LockProcess {
  const waiting: ((answer: Answer | undefined) => void)[] = []
  const ended = new Promise<void>((resolve) => {
    child.on('close', () => {
      for (const settle of waiting.splice(0)) settle(undefined)
      resolve()
    })
  })
  if (child.stdout) createInterface({ input: child.stdout }).on('line', (line) => waiting.shift()?.(JSON.parse(line)))
  child.stdin?.on('error', () => undefined)
  return {
    pid: child.pid ?? 0,
    ask: (job) =>
      new Promise((resolve) => {
        if (child.exitCode !== null || child.signalCode !== null) return resolve(undefined)
        waiting.push(resolve)
        child.stdin?.write(`${JSON.stringify(job)}\n`)
      }),
    kill: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}
