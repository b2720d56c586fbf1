// SPDX-License-Identifier: Apache-2.0
// The runtime's configuration file, written last and as a whole.

import { mkdirSync, readdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { readText, writeText } from '../../../system/files/files.ts'
import { sweepTemporaries } from '../../../system/store/sweep.ts'

/** Writes the configuration if the file differs. Returns whether it did. */
export function writeConfiguration(file: string, text: string): boolean {
  const found = readText(file)
  if (found !== undefined && found !== 'unreadable' && found.text === text) return false
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  sweepTemporaries(dirname(file))
  writeText(file, text)
  return true
}

/** Configuration files that sort before trestle's; a runtime uses the first file (libcni, ConfFiles). */
export function sortsBefore(directory: string, name: string): readonly string[] {
  try {
    const names = readdirSync(directory).filter((each) => /\.(conf|conflist|json)$/.test(each))
    return names.filter((each) => each < name).sort()
  } catch {
    return []
  }
}
