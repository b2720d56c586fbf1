// SPDX-License-Identifier: Apache-2.0
// A tool that leaves a process behind which has all its descriptors and no signal to its process group reaches: whoever
// waits for the end of a descriptor of theirs waits for ten minutes.

import { execFileSync } from 'node:child_process'
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Lab } from './lab.ts'

/** Puts such an `ip` into `DIR/tools`, which leaves one behind where it removes links; take it away again. */
export async function installOutliving(lab: Lab) {
  const tools = join(lab.dir, 'tools')
  const left = join(lab.dir, 'outliving')
  const real = execFileSync('sh', ['-c', 'command -v ip'], { encoding: 'utf8' }).trim()
  const lines = [
    '#!/bin/sh',
    'input=$(cat)',
    // In a session of its own before ip begins: a signal to the group could come before setsid(2) otherwise.
    `case $input in *"link del "*)`,
    `  setsid sh -c 'echo $$ >> ${left}; : > ${tools}/begun.$1; exec sleep 600' sh $$ &`,
    `  until [ -e ${tools}/begun.$$ ]; do sleep 0.01; done ;;`,
    'esac',
    `exec ${real} "$@" << X`,
    '$input',
    'X',
  ]
  await mkdir(tools, { recursive: true })
  await writeFile(join(tools, 'ip'), `${lines.join('\n')}\n`)
  await chmod(join(tools, 'ip'), 0o755)
  return {
    tools,
    /** How many were left behind, and how many of them live: their ids are those of the private machine. */
    count: async (): Promise<{ readonly left: number; readonly living: number }> => {
      const script = 'for pid in $(cat "$1"); do echo left; kill -0 "$pid" && echo living; done'
      const { stdout } = await lab.run('sh', ['-c', script, 'sh', left])
      const words = stdout.split('\n')
      return {
        left: words.filter((each) => each === 'left').length,
        living: words.filter((each) => each === 'living').length,
      }
    },
    /** Ends them. */
    remove: async (): Promise<void> => {
      await lab.run('sh', ['-c', 'kill $(cat "$1")', 'sh', left])
      await rm(tools, { recursive: true })
      await rm(left, { force: true })
    },
  }
}
