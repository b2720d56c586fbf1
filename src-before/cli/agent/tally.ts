// SPDX-License-Identifier: Apache-2.0
// Reads the lines of the plugin's calls since the last read.

import { closeSync, constants, fstatSync, openSync, readSync, renameSync, rmSync } from 'node:fs'
import { orElse } from '../../cni/error.ts'
import { createText } from '../../system/files/files.ts'
import { readTally, type TalliedCall, tallyFile } from '../../system/process/call-tally.ts'

/** The size at which the agent begins a new file. */
const manyBytes = 256 * 1024

/** Begins a missing file. `read`: the calls since the last read, or since the start. Never throws. */
export function openTally(): { readonly read: () => readonly TalliedCall[] } {
  let from = begin() ? 0 : (contents(tallyFile(), 0)?.end ?? 0)
  const read = (): readonly TalliedCall[] => {
    const found = contents(tallyFile(), from)
    if (found === undefined) {
      begin()
      from = 0
      return []
    }
    from = found.end
    return found.end < manyBytes ? readTally(found.text) : readTally(found.text + begunAgain(found.end))
  }
  return { read }
}

/** Replaces the file by an empty one. Returns the lines that came meanwhile. */
function begunAgain(end: number): string {
  const aside = `${tallyFile()}.read`
  try {
    renameSync(tallyFile(), aside)
    begin()
    return contents(aside, end)?.text ?? ''
  } catch {
    return ''
  } finally {
    rmSync(aside, { force: true })
  }
}

function begin(): boolean {
  return orElse(() => createText(tallyFile(), ''), false)
}

/** The whole lines after `from`, and their end; undefined without a file. */
function contents(file: string, from: number): { readonly text: string; readonly end: number } | undefined {
  try {
    const fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const { size } = fstatSync(fd)
      // Another process has begun a new file.
      const start = size < from ? 0 : from
      const bytes = Buffer.alloc(Math.min(size - start, 4 * manyBytes))
      const read = readSync(fd, bytes, 0, bytes.length, start)
      const whole = bytes.subarray(0, bytes.subarray(0, read).lastIndexOf(0x0a) + 1)
      return { text: whole.toString('latin1'), end: start + whole.length }
    } finally {
      closeSync(fd)
    }
  } catch {
    return undefined
  }
}
