// SPDX-License-Identifier: Apache-2.0
// What tells of changes on the node: `ip monitor` and `nft monitor` as long-lived processes, inotify for directories.
// One that ends is started again; what it missed meanwhile the agent's own look finds.

import { type ChildProcess, spawn } from 'node:child_process'
import { type FSWatcher, mkdirSync, watch } from 'node:fs'
import { createInterface } from 'node:readline'
import { pathWithTools } from '../../../system/process/runner.ts'

const againMs = 5000

/** Runs `file` for as long as the signal has not come, and gives each line that it prints. */
export function followLines(
  { file, args, signal }: { file: string; args: readonly string[]; signal: AbortSignal },
  onLine: (line: string) => void,
): void {
  if (signal.aborted) return
  const again = () => {
    if (!signal.aborted) setTimeout(() => followLines({ file, args, signal }, onLine), againMs).unref()
  }
  const child: ChildProcess = spawn(file, args, {
    env: { PATH: pathWithTools(), LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const end = () => child.kill('SIGKILL')
  signal.addEventListener('abort', end, { once: true })
  child.on('error', () => undefined)
  child.on('close', () => {
    signal.removeEventListener('abort', end)
    again()
  })
  if (child.stdout !== null) createInterface(child.stdout).on('line', onLine)
}

/** Tells of every change of a name in a directory, which is made where it is missing. */
export function followDirectory(directory: string, signal: AbortSignal, onChange: () => void): void {
  if (signal.aborted) return
  const again = () => setTimeout(() => followDirectory(directory, signal, onChange), againMs).unref()
  let watcher: FSWatcher
  try {
    mkdirSync(directory, { recursive: true, mode: 0o755 })
    watcher = watch(directory, { signal })
  } catch {
    again()
    return
  }
  // rename: also of the directory itself, whose successor has to be watched anew.
  watcher.on('change', () => onChange())
  watcher.on('error', () => {
    watcher.close()
    again()
  })
}
