// SPDX-License-Identifier: Apache-2.0
// Ends what a killed call left at work, before anybody tears down or makes anew what it was about: a tool with its
// batch in its pipe makes a link long after its caller is gone. Tools are killed; one in the middle of a netlink
// request ends when that is done. Delegated plugins are waited for: what they do between two files of theirs is not
// ours to cut short.

import { type BigIntStats, lstatSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CniError, oneLine, orElse } from '../../cni/error.ts'
import type { ProcessIdentity } from '../../model/record.ts'
import { namesIn } from '../files/files.ts'
import { stateRoot } from '../files/state.ts'
import { callFile, type ProcessKind } from './call-file.ts'
import { nowMs } from './clock.ts'
import { bootId, hasEnded, isOlder, longestCallMs, ownPidNamespace, statOf } from './process-identity.ts'
import type { Deadline } from './runner.ts'

/** How long a delegated plugin goes on after its caller was killed: as long as that would have let it. */
const longestDelegateMs = 20_000
const longestWaitMs = 5000

/** What others' killed calls have at work ends at once, or waits in the kernel. */
const othersWaitMs = 1000
const longestPauseMs = 50

interface Found extends HeldFile {
  readonly identity: ProcessIdentity
  readonly kind: ProcessKind
}

/**
 * Ends the tools of the call that wrote a record or held a lock, and waits for its delegated plugin, when it has ended
 * itself. Two looks at a directory where nothing is left. Throws CniError 11 when something stays at work for five
 * seconds, or until the deadline: whatever the call was about then stays as it is.
 */
export async function endProcessesOf(writer: ProcessIdentity, deadline?: Deadline): Promise<void> {
  if (writer.bootId !== bootId()) return
  const kinds = ['tool', 'delegate'] as const
  const found = kinds.flatMap((kind) => findFile(callFile(writer, kind), writer, kind) ?? [])
  const left = found.filter(isOver)
  const until = Math.min(nowMs() + longestWaitMs, deadline?.endsAtMs ?? Number.POSITIVE_INFINITY)
  const stuck = await settle(left, until)
  if (stuck.length > 0) throw stillAtWork(writer, stuck)
}

/**
 * Ends the tools of every call that was killed, whatever it was about; what does not end within a second is reported.
 * `delegates`: waits for their delegated plugins, too, five seconds at most: a call that has one of its own must not
 * come before what they do, such as a GC with an earlier list. One look at a directory where there is nothing. Never
 * throws.
 */
export async function endKilledCalls(delegates: boolean): Promise<void> {
  try {
    const found = namesIn(stateRoot()).flatMap((name) => fileNamed(name) ?? [])
    const left = found.filter((each) => isOver(each) && (each.kind === 'tool' || delegates || isLate(each)))
    const waitMs = left.some(({ kind }) => kind === 'delegate') ? longestWaitMs : othersWaitMs
    const stuck = await settle(left, nowMs() + waitMs)
    if (stuck.length > 0) report(`at work for a killed call: process ${stuck.map(describeProcess).join(', ')}`)
  } catch (error) {
    report(`what a killed call left at work: ${(error as Error).message}`)
  }
}

function report(text: string): void {
  process.stderr.write(`trestle: ${oneLine(text)}\n`)
}

/** Ends what has the files open and removes them. Returns the processes that are still there at the end of the time. */
async function settle(files: readonly Found[], untilMs: number): Promise<readonly number[]> {
  const unseen = files.filter(isUnseen)
  forget(unseen)
  let left = files.filter((file) => !unseen.includes(file))
  for (let pauseMs = 1; left.length > 0; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    const late = left.filter(isLate)
    const awaited = left.filter((file) => !late.includes(file))
    const holders = awaited.length === 0 ? [] : holdersOf(awaited)
    const isHeld = (file: Found) => awaited.includes(file) && holders.some((pid) => isHolder(pid, file))
    const done = left.filter((file) => !isHeld(file))
    forget(done)
    left = left.filter((file) => !done.includes(file))
    if (nowMs() > untilMs) return left.length === 0 ? [] : holders
    for (const file of left) if (file.kind === 'tool') for (const pid of holders) kill(pid, file)
    if (left.length > 0) await sleep(pauseMs)
  }
  return []
}

/** With its children, where it leads a process group. Looks once more right before: pids are given anew. */
function kill(pid: number, file: Found): void {
  try {
    const isLeader = statOf(String(pid))[2] === String(pid)
    const target = isLeader ? -pid : pid
    if (isHolder(pid, file)) process.kill(target, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

function forget(files: readonly Found[]): void {
  for (const { path } of files) {
    try {
      rmSync(path, { force: true })
    } catch {
      // A read-only disk: a later call looks once more.
    }
  }
}

function fileNamed(name: string): Found | undefined {
  const [, namespace, pid, startTime = '', delegate] = /^call\.(\d+)\.(\d+)\.(\d*)(\.delegate)?$/.exec(name) ?? []
  if (namespace === undefined) return undefined
  const identity = { pid: Number(pid), startTime, bootId: bootId(), pidNamespace: `pid:[${namespace}]` }
  return findFile(`${stateRoot()}/${name}`, identity, delegate === undefined ? 'tool' : 'delegate')
}

/** Not one that somebody has put under the name: a link to a file which all have open would be the end of them. */
function findFile(path: string, identity: ProcessIdentity, kind: ProcessKind): Found | undefined {
  const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  const isOurs =
    stat?.isFile() && stat.uid === 0n && stat.nlink === 1n && stat.size === 0n && (stat.mode & 0o777n) === 0o600n
  return stat !== undefined && isOurs ? { path, stat, identity, kind } : undefined
}

/** Whether the call has ended: that of another pid namespace, which we cannot see, after its longest time. */
function isOver({ identity, stat }: Found): boolean {
  return hasEnded(identity, Number(stat.mtimeMs))
}

/** Whether its processes cannot be told and its longest time is over. Throws CniError 11 where it is not. */
function isUnseen({ identity, stat }: Found): boolean {
  if (identity.pidNamespace !== ownPidNamespace()) return true
  if (seesOwnProcesses()) return false
  if (Math.abs(Date.now() - Number(stat.mtimeMs)) > longestCallMs) return true
  throw notVisible()
}

function isLate({ kind, identity, stat }: Found): boolean {
  return kind === 'delegate' && isOlder(identity, Number(stat.mtimeMs), longestDelegateMs)
}

function stillAtWork({ pid }: ProcessIdentity, stuck: readonly number[]): CniError {
  const who = stuck.map(describeProcess).join(', ')
  return new CniError('killed-call-at-work', `what a killed call has started is still at work: process ${who}`, {
    details:
      `its caller was process ${pid}; a tool waits for the kernel (cat /proc/${stuck[0]}/stack), an IPAM plugin ` +
      'for what it needs; record and addresses stay for a later call',
  })
}

function notVisible(): CniError {
  return new CniError(
    'killed-call-not-visible',
    'cannot see the processes of a killed call: /proc is of another pid namespace',
    {
      details:
        'mount /proc of the pid namespace that trestle runs in, or run it where the runtime runs (nsenter -t 1 -p)',
    },
  )
}

// Processes that have a file open, through /proc/PID/fd (proc(5)): only root's own, and only of our pid namespace.

/** A file that some process may have open. It must exist as long as this is used: its inode is what is looked for. */
interface HeldFile {
  readonly path: string
  readonly stat: BigIntStats
}

/** Whether /proc shows our own pid namespace: in another one its numbers are not those that kill(2) takes. */
function seesOwnProcesses(): boolean {
  return readlinkSync('/proc/self') === String(process.pid)
}

/** The processes that have one of `files` open, but for us. Looks at every process of the machine. */
function holdersOf(files: readonly HeldFile[]): readonly number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
  return pids.map(Number).filter((pid) => files.some((file) => isHolder(pid, file)))
}

/** Whether a process of root, of our pid namespace, has the file open now. */
function isHolder(pid: number, file: HeldFile): boolean {
  // It may have ended.
  return orElse(
    () => hasOpen(pid, file) && isRoots(pid) && readlinkSync(`/proc/${pid}/ns/pid`) === ownPidNamespace(),
    false,
  )
}

/** The link's text tells most apart without a look at the file, which for one on a network can take for ever. */
function hasOpen(pid: number, { path, stat }: HeldFile): boolean {
  const name = path.slice(path.lastIndexOf('/'))
  return readdirSync(`/proc/${pid}/fd`).some((fd) => {
    const link = orElse(() => readlinkSync(`/proc/${pid}/fd/${fd}`), '')
    if (!link.endsWith(name)) return false
    const found = statSync(`/proc/${pid}/fd/${fd}`, { bigint: true, throwIfNoEntry: false })
    return found?.ino === stat.ino && found.dev === stat.dev
  })
}

/** Real, effective, saved and file system uid. */
function isRoots(pid: number): boolean {
  return /^Uid:\s+0\s+0\s+0\s+0$/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'))
}

function describeProcess(pid: number): string {
  return orElse(() => `${pid} (${readFileSync(`/proc/${pid}/comm`, 'latin1').trim()})`, String(pid))
}
