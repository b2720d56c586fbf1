// SPDX-License-Identifier: Apache-2.0
// This program as something to start again: the executable, or Node with the bundle when run unpacked.

import { realpathSync } from 'node:fs'
import { isSea } from 'node:sea'

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
