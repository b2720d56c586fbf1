// SPDX-License-Identifier: Apache-2.0
// The commands for humans (placeholder).
import { writeSync } from 'node:fs'

/** Runs one command. Returns the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  writeSync(1, `trestle: no commands yet (${args.join(' ')})\n`)
  return 0
}
