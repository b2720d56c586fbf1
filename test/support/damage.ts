// SPDX-License-Identifier: Apache-2.0
// Ways in which a file of the state directory is not what it was.

import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'

/** One way to damage a file. `other`: a file of the same directory, where there is one. */
export const damages: Readonly<Record<string, (file: string, other?: string) => void>> = {
  'cut to nothing': (file) => truncateSync(file, 0),
  'cut in the middle': (file) => truncateSync(file, Math.floor(readFileSync(file).length / 2)),
  'filled with noise': (file) =>
    writeFileSync(file, Buffer.from(Array.from({ length: 300 }, (_, at) => (at * 167 + 13) % 256))),
  'JSON of another shape': (file) => writeFileSync(file, '[{"format":1,"key":null}]'),
  'replaced by a directory': (file) => {
    rmSync(file)
    mkdirSync(file)
  },
  'replaced by a link to nowhere': (file) => {
    rmSync(file)
    symlinkSync('/nonexistent/file', file)
  },
  'replaced by a link to another file': (file) => {
    rmSync(file)
    symlinkSync('/etc/hostname', file)
  },
  "another attachment's": (file, other) => {
    if (other === undefined) return
    const text = readFileSync(other)
    rmSync(file)
    writeFileSync(file, text)
  },
  removed: (file) => rmSync(file),
}

/** Every file below a directory, as paths relative to it, sorted. */
export function filesBelow(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(directory.length + 1))
    .sort()
}
