// SPDX-License-Identifier: Apache-2.0
// This program: what to start to run it again (the executable, or Node with the bundle when run unpacked), and whether
// it may do what is asked.

import { realpathSync } from 'node:fs'
import { isSea } from 'node:sea'
import { CniError } from '../../cni/model/error.ts'

/** What to start, and the words before its own arguments. */
export interface Program {
  readonly file: string
  readonly args: readonly string[]
}

/** How to start this program again, with the same executable or bundle. */
export function thisProgram(): Program {
  return isSea()
    ? { file: process.execPath, args: [] }
    : { file: process.execPath, args: [realpathSync(process.argv[1] ?? '')] }
}

/** Throws CniError 50 for anybody but root. `why`: what the command needs it for. */
export function requireRoot(command: string, why: string): void {
  if (process.geteuid?.() === 0) return
  throw new CniError('needs-root', `${command}: needs root`, { details: `${why}: run it with sudo` })
}
