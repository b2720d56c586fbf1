// SPDX-License-Identifier: Apache-2.0
// This program: the command that starts it again (the executable, or Node with the bundle), and its privileges.

import { realpathSync } from 'node:fs'
import { isSea } from 'node:sea'
import { failureOf } from './failure.ts'

/** A file to start, and the arguments before the command's own. */
export interface Program {
  readonly file: string
  readonly args: readonly string[]
}

/** This program's own executable, or Node with its bundle. */
export function thisProgram(): Program {
  return isSea()
    ? { file: process.execPath, args: [] }
    : { file: process.execPath, args: [realpathSync(process.argv[1] ?? '')] }
}

/** Throws CniError 50 without root. `why`: the command's reason for it. */
export function requireRoot(command: string, why: string): void {
  if (process.geteuid?.() === 0) return
  throw failureOf('needs-root', `${command}: needs root`, { details: `${why}: run it with sudo` })
}
