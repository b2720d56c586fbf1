// SPDX-License-Identifier: Apache-2.0
// Commands that stand on this core; all others are those of before, until each has been carried over.

import { main as mainOfBefore } from '../../src-before/cli/main.ts'
import { restore } from './restore.ts'
import { uninstallCommand } from './uninstall.ts'

/** Runs the words behind the program's name; gives the exit code. */
export async function main(words: readonly string[]): Promise<number> {
  const [name, ...rest] = words
  if (name === 'restore') return await restore(rest)
  if (name === 'uninstall') return await uninstallCommand(rest)
  return await mainOfBefore(words)
}
