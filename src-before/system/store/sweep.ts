// SPDX-License-Identifier: Apache-2.0
// What killed calls leave beside records: temporary files and locks. Each is harmless, but they would
// pile up on a node whose runtime kills many calls.

import { existsSync, rmSync } from 'node:fs'
import type { ProcessIdentity } from '../../model/record.ts'
import { namesIn } from '../files/files.ts'
import { type NetworkFiles, stateRoot } from '../files/state.ts'
import { ownPidNamespace } from '../process/process-identity.ts'
import { removeAbandoned } from './lock.ts'

/** `.PIDNS.PID.TIME.N` of files.ts; `LOCK.PIDNS.PID.TIME.DEPTH` of lock.ts. */
const temporaryName = /\.(\d+)\.(\d+)\.\d+\.\d+$/

const lockNames = ['lock', 'ports.lock', 'settle.lock']

/** Removes temporary files of ended processes and abandoned locks, of this network and of the machine. */
export async function sweep(files: NetworkFiles, owner: ProcessIdentity): Promise<void> {
  for (const directory of [stateRoot(), files.directory, files.pending, files.locks]) {
    for (const name of namesIn(directory)) {
      const file = `${directory}/${name}`
      const isLockName = directory === files.locks || lockNames.includes(name)
      // As a rule nothing is left: the expression need not be compiled then.
      const isTemporary = (isLockName || name.startsWith('.') || name.includes('lock')) && temporaryName.test(name)
      // A lock being made is no lock: its text is not whole before it has its name.
      if (isTemporary && isLeft(name)) rmSync(file, { force: true, recursive: true })
      if (!isTemporary && isLockName) {
        await removeAbandoned({ file, purpose: 'remove an abandoned lock', owner, waitMs: 0 })
      }
    }
  }
}

/** Removes temporary files of ended processes where only some files are ours: their names begin with a dot. */
export function sweepTemporaries(directory: string): void {
  for (const name of namesIn(directory))
    if (name.startsWith('.') && isLeft(name)) rmSync(`${directory}/${name}`, { force: true })
}

/** Where the maker cannot be seen, in another pid namespace, its file stays. */
function isLeft(name: string): boolean {
  const [, namespace, pid] = temporaryName.exec(name) ?? []
  if (namespace === undefined || ownPidNamespace() !== `pid:[${namespace}]`) return false
  return !existsSync(`/proc/${pid}`)
}
