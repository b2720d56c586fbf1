// SPDX-License-Identifier: Apache-2.0
// Watches the node: `ip monitor` and `nft monitor` as long-lived processes, inotify for directories. A monitor that
// ends starts again; the agent's regular look finds changes that it missed.

import { type ChildProcess, spawn } from 'node:child_process'
import { type FSWatcher, mkdirSync, statSync, watch } from 'node:fs'
import { createInterface } from 'node:readline'
import { orElse } from '../../cni/error.ts'
import { readAcceptPlaces } from '../../core.ts'
import { type ChainPlace, samePlace } from '../../features/accept-place.ts'
import { deletedByOthers, hadAccept } from '../../plan/agent/kernel-news.ts'
import { isAwaited, onHost, pathWithTools } from '../../system/process/programs.ts'

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
  const watched = inodeOf(directory)
  watcher.on('change', () => {
    onChange()
    if (inodeOf(directory) === watched) return
    // Another directory has this name by now, or none, and needs a watch of its own.
    watcher.close()
    followDirectory({ directory, isOurs }, signal, onChange)
  })
  watcher.on('error', () => {
    watcher.close()
    again()
  })
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino
}

// Notices a firewall's reload that removes trestle's accept with its rules: compares deletions that nft reports with
// the accept's present and former chains. iptables-legacy reports no deletions.

/** Collects the deletions of one transaction, which come rule by rule. */
const soonMs = 100

/** A reload in several steps may add its drop after the look, so a second look follows after this time of quiet. */
const secondLookMs = 3000

export interface AcceptNews {
  /** Receives a line of `nft monitor`. */
  readonly onLine: (line: string) => void
  /** Records the accept's present chains. */
  readonly learn: () => void
}

/** `ask`: called when the accept may be gone. */
export function openAcceptNews(signal: AbortSignal, ask: () => void): AcceptNews {
  const deleted = new Set<string>()
  let places: readonly ChainPlace[] = []
  let [soon, again]: (NodeJS.Timeout | undefined)[] = []

  const learn = () => {
    const now = acceptPlaces().filter((place) => !places.some((each) => samePlace(each, place)))
    places = [...places, ...now]
  }
  const look = () => {
    soon = undefined
    const all = [...deleted]
    deleted.clear()
    // A network's first pod may have put the accept there since the last round.
    learn()
    if (!places.some((place) => all.some((each) => hadAccept(place, each)))) return
    ask()
    clearTimeout(again)
    again = setTimeout(ask, secondLookMs)
  }
  const onLine = (line: string) => {
    const what = deletedByOthers(line)
    if (what === undefined) return
    deleted.add(what)
    soon ??= setTimeout(look, soonMs)
  }
  signal.addEventListener('abort', () => {
    clearTimeout(soon)
    clearTimeout(again)
  })
  return { onLine, learn }
}

/** The accept's chains by the state; none while the state is unreadable. */
function acceptPlaces(): readonly ChainPlace[] {
  return orElse(() => readAcceptPlaces().map((place) => ({ kind: 'nft', ...place }) as ChainPlace), [])
}
