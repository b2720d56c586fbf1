// SPDX-License-Identifier: Apache-2.0
// Watches the node: `ip monitor` and `nft monitor` as long-lived processes, inotify for directories. A monitor that
// ends starts again; the agent's regular look finds changes that it missed.

import { type ChildProcess, spawn } from 'node:child_process'
import { type FSWatcher, mkdirSync, watch } from 'node:fs'
import { createInterface } from 'node:readline'
import { isAwaited, onHost, pathWithTools } from '../../../system/process/programs.ts'

const againMs = 5000

/** `otherArgs`: the arguments for a program that refuses `args`. */
interface Following {
  readonly file: string
  readonly args: readonly string[]
  readonly otherArgs?: readonly string[]
  readonly signal: AbortSignal
}

/**
 * Runs `file` until the signal and hands over its lines. The child dies with this process, because a monitor notices a
 * closed pipe only at its next line, and would hold the namespace until then.
 */
export function followLines(following: Following, onLine: (line: string) => void, isTied = true): void {
  const { file, args, otherArgs, signal } = following
  if (signal.aborted) return
  // A setpriv without --pdeathsig (busybox) ends at once, like a missing one.
  const again = (next: Following, isTiedThen: boolean) => {
    if (!signal.aborted) setTimeout(() => followLines(next, onLine, isTiedThen), againMs).unref()
  }
  // That of the image may read the machine's tables wrongly.
  if (isAwaited(file)) {
    again(following, isTied)
    return
  }
  const found = onHost({ file, args })
  const [program, before] = isTied ? ['setpriv', ['--pdeathsig', 'KILL', '--', found.file]] : [found.file, []]
  const child: ChildProcess = spawn(program, [...before, ...found.args], {
    env: { PATH: pathWithTools(), LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const end = () => child.kill('SIGKILL')
  signal.addEventListener('abort', end, { once: true })
  child.on('error', () => undefined)
  child.on('close', (code) => {
    signal.removeEventListener('abort', end)
    if (code !== null && code !== 0 && otherArgs !== undefined)
      followLines({ file, args: otherArgs, signal }, onLine, isTied)
    else again(following, isTied && code === null)
  })
  if (child.stdout !== null) createInterface(child.stdout).on('line', onLine)
}

/** Watches the names in a directory, and makes a missing directory if the agent owns it. */
export function followDirectory(
  { directory, isOurs }: { readonly directory: string; readonly isOurs: boolean },
  signal: AbortSignal,
  onChange: () => void,
): void {
  if (signal.aborted) return
  const again = () => setTimeout(() => followDirectory({ directory, isOurs }, signal, onChange), againMs).unref()
  let watcher: FSWatcher
  try {
    if (isOurs) mkdirSync(directory, { recursive: true, mode: 0o755 })
    watcher = watch(directory, { signal })
  } catch {
    again()
    return
  }
  // A rename may be that of the directory itself, whose successor needs a new watch.
  watcher.on('change', () => onChange())
  watcher.on('error', () => {
    watcher.close()
    again()
  })
}
