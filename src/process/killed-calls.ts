// SPDX-License-Identifier: Apache-2.0
// Processes of calls that were killed. A call's tools go on when it is killed: `ip` with its batch in the pipe makes a
// link long after. So each child inherits the descriptor of an empty file that only root can open, named after its call;
// a later call finds the processes that have it open through /proc/PID/fd and kills them before it removes anything. The
// plugin that a call has delegated to has a file of its own: it is waited for, never killed.

import {
  closeSync,
  constants,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
} from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CniError, Code, oneLine } from '../cni/errors.ts'
import { ownPidNamespace } from '../kernel/netns.ts'
import { bootId } from '../kernel/proc.ts'
import { namesIn } from '../state/files.ts'
import { stateRoot } from '../state/layout.ts'
import { hasEnded, isOlder, nowMs, ownIdentity, type ProcessIdentity, startTimeOf, statOf } from './clock.ts'

export type ProcessKind = 'tool' | 'delegate'

/** A delegated plugin goes on for as long as its call would have let it. */
const longestDelegateMs = 20_000
const longestWaitMs = 5000

/** The files that this process has open, and its children that have not been seen to end. */
const own = { files: new Map<string, number>(), pids: new Set<number>() }

function callFile({ pid, startTime, pidNamespace }: ProcessIdentity, kind: ProcessKind): string {
  const namespace = /\d+/.exec(pidNamespace)?.[0] ?? '0'
  return `${stateRoot()}/call.${namespace}.${pid}.${startTime}${kind === 'delegate' ? '.delegate' : ''}`
}

/** The descriptor that a child of this call inherits; undefined on a full disk, where a removal goes on without. */
export function callDescriptor(kind: ProcessKind): number | undefined {
  const file = callFile(ownIdentity(), kind)
  const known = own.files.get(file)
  if (known !== undefined) return known
  try {
    const flags = constants.O_RDONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    const fd = openSync(file, flags, 0o600)
    own.files.set(file, fd)
    return fd
  } catch {
    return undefined
  }
}

export function noteStarted(pid: number): void {
  own.pids.add(pid)
}

export function noteEnded(pid: number | undefined): void {
  if (pid !== undefined) own.pids.delete(pid)
}

/** Removes the files of this process at its end. With a child at work they stay, for a later call to end it. */
export function removeCallFiles(): void {
  const isAtWork = [...own.pids].some((pid) => {
    try {
      return startTimeOf(String(pid)) !== undefined
    } catch {
      return true
    }
  })
  for (const [file, fd] of own.files) {
    closeSync(fd)
    if (!isAtWork) rmSync(file, { force: true })
  }
  own.files.clear()
}

interface CallFile {
  readonly path: string
  readonly inode: bigint
  readonly device: bigint
  readonly writtenMs: number
  readonly identity: ProcessIdentity
  readonly kind: ProcessKind
}

/**
 * Ends the tools of every call that was killed, and waits for their delegated plugins. `writer`: of that call alone.
 * Where nothing is left it reads one directory. Throws CniError 11 when something is still at work after five seconds,
 * or at the deadline.
 */
export async function endKilledCalls(writer?: ProcessIdentity, untilMs = Number.POSITIVE_INFINITY): Promise<void> {
  const names = namesIn(stateRoot()).filter((name) => name.startsWith('call.'))
  const files = names.flatMap((name) => readCallFile(name) ?? [])
  const ofWriter = files.filter(({ identity }) => writer === undefined || isSameProcess(identity, writer))
  let left = ofWriter.filter(({ identity, writtenMs }) => hasEnded(identity, writtenMs))
  const until = Math.min(nowMs() + longestWaitMs, untilMs)
  for (let pauseMs = 1; left.length > 0; pauseMs = Math.min(pauseMs * 2, 50)) {
    requireOwnProc(left)
    const holders = holdersOf(left)
    const isAtWork = (file: CallFile) =>
      holders.some((pid) => isHolder(pid, file)) &&
      !(file.kind === 'delegate' && isOlder(file.identity, file.writtenMs, longestDelegateMs))
    const atWork = left.filter(isAtWork)
    for (const file of left) if (!atWork.includes(file)) rmSync(file.path, { force: true })
    left = atWork
    if (left.length === 0) return
    if (nowMs() > until) throw stillAtWork(left, holders)
    for (const file of left) if (file.kind === 'tool') for (const pid of holders) kill(pid, file)
    await sleep(pauseMs)
  }
}

/** The same for a call that does not depend on it: what stays is reported on stderr. */
export async function endKilledCallsIfPossible(): Promise<void> {
  try {
    await endKilledCalls(undefined, nowMs() + 2000)
  } catch (error) {
    process.stderr.write(`trestle: ${oneLine((error as Error).message)}\n`)
  }
}

function isSameProcess(a: ProcessIdentity, b: ProcessIdentity): boolean {
  return a.pid === b.pid && a.startTime === b.startTime && a.bootId === b.bootId && a.pidNamespace === b.pidNamespace
}

/** If somebody linked a file here that every process has open, all of them would be killed: only a file of ours counts. */
function readCallFile(name: string): CallFile | undefined {
  const [, namespace, pid, startTime = '', delegate] = /^call\.(\d+)\.(\d+)\.(\d*)(\.delegate)?$/.exec(name) ?? []
  const path = `${stateRoot()}/${name}`
  const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (namespace === undefined || stat === undefined) return undefined
  const isOurs =
    stat.isFile() &&
    stat.uid === BigInt(process.geteuid?.() ?? 0) &&
    stat.nlink === 1n &&
    stat.size === 0n &&
    (stat.mode & 0o777n) === 0o600n
  if (!isOurs) return undefined
  const identity = { pid: Number(pid), startTime, bootId: bootId(), pidNamespace: `pid:[${namespace}]` }
  const kind = delegate === undefined ? 'tool' : 'delegate'
  return { path, inode: stat.ino, device: stat.dev, writtenMs: Number(stat.mtimeMs), identity, kind }
}

/** In a /proc of another pid namespace numbers are not those that kill(2) takes. */
function requireOwnProc(files: readonly CallFile[]): void {
  const isOwn = files.every(({ identity }) => identity.pidNamespace === ownPidNamespace())
  if (isOwn && readlinkSync('/proc/self') === String(process.pid)) return
  const message = 'cannot see the processes of a killed call: /proc is of another pid namespace'
  throw new CniError(Code.tryAgainLater, 'killed-call-not-visible', message, {
    details: 'run trestle where the runtime runs (nsenter -t 1 -p), with /proc of that pid namespace',
  })
}

/** The processes that have one of the files open. Looks at every process of the machine. */
function holdersOf(files: readonly CallFile[]): readonly number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
  return pids.map(Number).filter((pid) => files.some((file) => isHolder(pid, file)))
}

/** Whether a process of root, of our pid namespace, has the file open now. */
function isHolder(pid: number, { path, inode, device }: CallFile): boolean {
  const name = path.slice(path.lastIndexOf('/'))
  try {
    const isOpen = readdirSync(`/proc/${pid}/fd`).some((fd) => {
      // The link's text tells most apart without a look at the file, which on a network can take for ever.
      if (!linkText(`/proc/${pid}/fd/${fd}`).endsWith(name)) return false
      const found = statSync(`/proc/${pid}/fd/${fd}`, { bigint: true, throwIfNoEntry: false })
      return found?.ino === inode && found.dev === device
    })
    const isRoots = () => /^Uid:\s+0\s+0\s+0\s+0$/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'))
    return isOpen && isRoots() && readlinkSync(`/proc/${pid}/ns/pid`) === ownPidNamespace()
  } catch {
    return false // it has ended
  }
}

function linkText(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

/** With its children, where it leads a process group. Looks once more right before: pids are given again. */
function kill(pid: number, file: CallFile): void {
  try {
    const isLeader = statOf(String(pid))[2] === String(pid)
    if (isHolder(pid, file)) process.kill(isLeader ? -pid : pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

function stillAtWork(files: readonly CallFile[], holders: readonly number[]): CniError {
  const name = (pid: number) => `${pid} (${linkText(`/proc/${pid}/exe`).split('/').at(-1) || 'unknown'})`
  const message = `what a killed call has started is still at work: process ${holders.map(name).join(', ')}`
  const callers = files.map(({ identity }) => identity.pid).join(', ')
  return new CniError(Code.tryAgainLater, 'killed-call-at-work', message, {
    details: `its caller was process ${callers}; see what it waits for: cat /proc/${holders[0]}/stack; a later call goes on`,
  })
}
