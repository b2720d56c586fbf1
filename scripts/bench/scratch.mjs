// SPDX-License-Identifier: Apache-2.0
// A folder for one run, gone when the program ends, however it ends.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Makes the folder. It goes with the process; what is mounted in it is taken off before. */
export function makeScratch() {
  const directory = mkdtempSync(join(tmpdir(), 'trestle-bench-'))
  process.on('exit', () => remove(directory))
  return directory
}

/** The trees of control groups are mounted in it, and those are the machine's: where one stays, so does the folder. */
function remove(directory) {
  for (const at of mountsIn(directory)) spawnSync('umount', ['--lazy', at])
  if (mountsIn(directory).length > 0) console.error(`bench: ${directory} stays, something is mounted in it`)
  else rmSync(directory, { recursive: true, force: true })
}

/** The last mounted first (proc_pid_mounts(5)). */
function mountsIn(directory) {
  const lines = readFileSync('/proc/self/mounts', 'utf8').split('\n').reverse()
  return lines.map((line) => line.split(' ')[1] ?? '').filter((at) => at.startsWith(`${directory}/`))
}
