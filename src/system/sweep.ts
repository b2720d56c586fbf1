// SPDX-License-Identifier: Apache-2.0
// What killed calls leave beside records: temporary files and locks. Each is harmless, but they would
// pile up on a node whose runtime kills many calls.

import { existsSync, readlinkSync, rmSync } from 'node:fs'
import type { ProcessStamp } from '../plan/record.ts'
import { namesIn } from './files.ts'
import { removeAbandoned } from './lock.ts'
import { type NetworkFiles, stateRoot } from './state.ts'

/** `.PIDNS.PID.TIME.N` of files.ts, `[ports.|settle.]lock[.break…].PIDNS.PID.TIME.DEPTH` of lock.ts. */
const temporaryName = /^(?:(?:(?:ports|settle)\.)?lock(?:\.break)*)?\.(\d+)\.(\d+)\.\d+\.\d+$/

const lockNames = ['lock', 'ports.lock', 'settle.lock']

/** Removes temporary files of ended processes and abandoned locks, of this network and of the machine. */
export async function sweep(files: NetworkFiles, owner: ProcessStamp): Promise<void> {
  for (const directory of [stateRoot(), files.directory, files.pending]) {
    for (const name of namesIn(directory)) {
      const file = `${directory}/${name}`
      if (lockNames.includes(name)) {
        await removeAbandoned({ file, purpose: 'remove an abandoned lock', owner, waitMs: 0 })
      } else if (isLeft(name)) rmSync(file, { force: true })
    }
  }
}

/** Where the maker cannot be seen, in another pid namespace, its file stays. */
function isLeft(name: string): boolean {
  // As a rule nothing is left: the expression need not be compiled then.
  if (!name.startsWith('.') && !name.includes('lock')) return false
  const [, namespace, pid] = temporaryName.exec(name) ?? []
  if (namespace === undefined || readlinkSync('/proc/self/ns/pid') !== `pid:[${namespace}]`) return false
  return !existsSync(`/proc/${pid}`)
}
