// SPDX-License-Identifier: Apache-2.0
// Processes that have a file open, through /proc/PID/fd (proc(5)): only root's own, and only of our pid namespace.

import { type BigIntStats, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { ownPidNamespace } from './process-identity.ts'

/** A file that some process may have open. It must exist as long as this is used: its inode is what is looked for. */
export interface HeldFile {
  readonly path: string
  readonly stat: BigIntStats
}

/** Whether /proc shows our own pid namespace: in another one its numbers are not those that kill(2) takes. */
export function seesOwnProcesses(): boolean {
  return readlinkSync('/proc/self') === String(process.pid)
}

/** The processes that have one of `files` open, but for us. Looks at every process of the machine. */
export function holdersOf(files: readonly HeldFile[]): readonly number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
  return pids.map(Number).filter((pid) => files.some((file) => isHolder(pid, file)))
}

/** Whether a process of root, of our pid namespace, has the file open now. */
export function isHolder(pid: number, file: HeldFile): boolean {
  try {
    return hasOpen(pid, file) && isRoots(pid) && readlinkSync(`/proc/${pid}/ns/pid`) === ownPidNamespace()
  } catch {
    // It has ended.
    return false
  }
}

/** The link's text tells most apart without a look at the file, which for one on a network can take for ever. */
function hasOpen(pid: number, { path, stat }: HeldFile): boolean {
  const name = path.slice(path.lastIndexOf('/'))
  return readdirSync(`/proc/${pid}/fd`).some((fd) => {
    const link = linkOf(`/proc/${pid}/fd/${fd}`)
    if (!link.endsWith(name)) return false
    const found = statSync(`/proc/${pid}/fd/${fd}`, { bigint: true, throwIfNoEntry: false })
    return found?.ino === stat.ino && found.dev === stat.dev
  })
}

/** Empty for a descriptor that was closed meanwhile. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

/** Real, effective, saved and file system uid. */
function isRoots(pid: number): boolean {
  return /^Uid:\s+0\s+0\s+0\s+0$/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'))
}

/** Whether it leads its process group. Throws when it has ended. */
export function leadsGroup(pid: number): boolean {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  // The second field is the command name in parentheses and may contain anything; pgrp is the fifth.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2] === String(pid)
}

/** The process as a person finds it: pid and name. */
export function describeProcess(pid: number): string {
  try {
    return `${pid} (${readFileSync(`/proc/${pid}/comm`, 'latin1').trim()})`
  } catch {
    return String(pid)
  }
}
