// SPDX-License-Identifier: Apache-2.0
// The file that the processes of a call have open. A call that is killed leaves its tools at work, and whoever settles
// it finds them by this descriptor (call-processes.ts): an environment variable or a name could be any process's, a
// descriptor of a file that only root can open is handed down by us alone. The file keeps its name until nobody has it
// open, so that no other file can have its inode meanwhile.

import { closeSync, constants, openSync, rmSync } from 'node:fs'
import type { ProcessIdentity } from '../../model/record.ts'
import { stateRoot } from '../files/state.ts'
import { startTimeOf } from './process-identity.ts'

/** A delegated plugin is never ended, a tool is: each kind has a file of its own. */
export type ProcessKind = 'tool' | 'delegate'

/** A process about to be started. `fd`: what it is to inherit; undefined where the file could not be made. */
interface Starting {
  readonly fd: number | undefined
  readonly started: (pid: number) => void
  readonly ended: () => void
}

/** Gives each process of a call its descriptor. */
export type Starter = (kind: ProcessKind) => Starting

/** The files that this process has open, by path, and its children that have not been seen to end. */
const own = { files: new Map<string, number>(), children: new Set<{ pid?: number }>() }

/** Where the file of a call is: named after its process, so that a record or a lock leads to it. */
export function callFile({ pid, startTime, pidNamespace }: ProcessIdentity, kind: ProcessKind): string {
  const namespace = /\d+/.exec(pidNamespace)?.[0] ?? '0'
  return `${stateRoot()}/call.${namespace}.${pid}.${startTime}${kind === 'delegate' ? '.delegate' : ''}`
}

/** For this process; its file is made with its first child. On a full disk a removal goes on without. */
export function starterOf(identity: ProcessIdentity): Starter {
  return (kind) => {
    const child: { pid?: number } = {}
    own.children.add(child)
    return {
      fd: openOnce(callFile(identity, kind)),
      started: (pid) => {
        child.pid = pid
      },
      ended: () => own.children.delete(child),
    }
  }
}

/** Removes the files of this process at its end. With a child at work they stay, for a later call to end it. */
export function removeCallFiles(): void {
  const isAtWork = [...own.children].some(hasFiles)
  for (const [file, fd] of own.files) {
    closeSync(fd)
    if (!isAtWork) rmSync(file, { force: true })
  }
  own.files.clear()
}

/**
 * Whether a child of ours still has what it inherited. One that was killed may have ended unseen: its number stays its
 * own until we are told of its end, and a process that only waits for that has closed its files (exit_files before
 * exit_notify, kernel/exit.c). What cannot be looked at is at work.
 */
function hasFiles({ pid }: { pid?: number }): boolean {
  try {
    return pid !== undefined && startTimeOf(String(pid)) !== undefined
  } catch {
    return true
  }
}

function openOnce(file: string): number | undefined {
  const known = own.files.get(file)
  if (known !== undefined) return known
  try {
    const fd = openSync(file, constants.O_RDONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
    own.files.set(file, fd)
    return fd
  } catch {
    return undefined
  }
}
