// SPDX-License-Identifier: Apache-2.0
// Who we are and whether another process still is: for lock and record owners (docs/design.md, "State").

import { constants, readFileSync, readlinkSync } from 'node:fs'
import { orElse } from '../../cni/error.ts'
import type { AttachmentRecord, ProcessIdentity } from '../../model/record.ts'

/** This process. Reads four files of /proc. */
export function ownProcessIdentity(): ProcessIdentity {
  return {
    pid: process.pid,
    startTime: startTimeOf('self') ?? '',
    bootId: bootId(),
    pidNamespace: ownPidNamespace(),
    netNamespace: readlinkSync('/proc/self/ns/net'),
  }
}

/** The running kernel's boot id (random(4)): differs after every boot. */
export function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
}

let hostRoot = ''

/** Where the machine's own root directory is, for a process in a container. Empty: it is this process's own. */
export function setHostRoot(directory: string): void {
  hostRoot = directory
}

/** Where this process finds a file of the machine's own root. */
export function ofHost(path: string): string {
  return `${hostRoot}${path}`
}

/** The machine id (machine-id(5)), or the boot id where a machine has none. Nobody waits for the writer of a pipe. */
export function machineId(): string {
  const flag = (constants.O_RDONLY | constants.O_NONBLOCK) as unknown as string
  return orElse(() => readFileSync(ofHost('/etc/machine-id'), { encoding: 'latin1', flag }).trim(), '') || bootId()
}

/** USER_HZ is 100 on every Linux (proc(5), clock ticks). */
const tickMs = 10

/** No call lasts longer (commands/call/context.ts gives it 20 s): what is older than this has no live writer. */
export const longestCallMs = 60_000

/**
 * Whether the process of an identity written at `writtenMs` (milliseconds since 1970) has ended. In another
 * pid namespace its pid says nothing: there only the age tells, since a live owner must never be taken
 * for a dead one, nor a dead one hold up every call of a restarted container.
 */
export function hasEnded(identity: ProcessIdentity, writtenMs: number): boolean {
  if (identity.bootId !== bootId()) return true
  if (identity.pidNamespace !== ownPidNamespace()) return isOlder(identity, writtenMs, longestCallMs)
  const startTime = startTimeOf(String(identity.pid))
  return startTime === undefined || startTime !== identity.startTime
}

export function isWriterGone(record: AttachmentRecord): boolean {
  return hasEnded(record.writer, Date.parse(record.createdAt))
}

/**
 * Whether what a process of this boot wrote is older than `ageMs`, in either direction of a clock that was set: the
 * time since the process started counts ticks since boot, and nobody sets those. Unknown is not older.
 */
export function isOlder(identity: ProcessIdentity, writtenMs: number, ageMs: number): boolean {
  // Our own start stands for now: no call lasts long enough for the difference to matter.
  const betweenStartsMs = (Number(startTimeOf('self')) - Number(identity.startTime || Number.NaN)) * tickMs
  return betweenStartsMs > ageMs && Math.abs(Date.now() - writtenMs) > ageMs
}

export function ownPidNamespace(): string {
  return readlinkSync('/proc/self/ns/pid')
}

/**
 * Field 22 of /proc/PID/stat (proc(5)), or undefined when there is no such process or it is a zombie. Throws what says
 * nothing about the process, such as too many open files: a live one must not be taken for dead.
 */
export function startTimeOf(pid: string): string | undefined {
  try {
    const fields = statOf(pid)
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
  } catch (error) {
    // ESRCH: it ended between open(2) and read(2).
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

/** The fields of /proc/PID/stat from the third on. The second is the command's name and may contain anything. */
export function statOf(pid: string): readonly string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}
