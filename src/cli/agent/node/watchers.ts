// SPDX-License-Identifier: Apache-2.0
// What tells of changes on the node: `ip monitor` and `nft monitor` as long-lived processes, inotify for directories.
// One that ends is started again; what it missed meanwhile the agent's own look finds.

import { type ChildProcess, spawn } from 'node:child_process'
import { type FSWatcher, mkdirSync, watch } from 'node:fs'
import { createInterface } from 'node:readline'
import { onHost } from '../../../system/process/host-programs.ts'
import { pathWithTools } from '../../../system/process/runner.ts'

const againMs = 5000

/** `otherArgs`: in the place of `args` where the program refuses them. */
interface Following {
  readonly file: string
  readonly args: readonly string[]
  readonly otherArgs?: readonly string[]
  readonly signal: AbortSignal
}

/**
 * Runs `file` for as long as the signal has not come, and gives each line that it prints. It ends with this process,
 * also where that is killed: a monitor notices a closed pipe with its next line only, and holds the namespace until
 * then.
 */
export function followLines(following: Following, onLine: (line: string) => void, isTied = true): void {
  const { file, args, otherArgs, signal } = following
  if (signal.aborted) return
  // A setpriv that does not know --pdeathsig (busybox) ends at once, as one that is missing.
  const again = (next: Following, isTiedThen: boolean) => {
    if (!signal.aborted) setTimeout(() => followLines(next, onLine, isTiedThen), againMs).unref()
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

/** Tells of every change of a name in a directory, which is made where it is missing unless it is not ours to make. */
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
  // rename: also of the directory itself, whose successor has to be watched anew.
  watcher.on('change', () => onChange())
  watcher.on('error', () => {
    watcher.close()
    again()
  })
}
