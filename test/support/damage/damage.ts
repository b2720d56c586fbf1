// SPDX-License-Identifier: Apache-2.0
// Ways in which a file of the state directory is not what it was.

import { execFileSync } from 'node:child_process'
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname } from 'node:path'

/** A file to damage. `other`: a file of another attachment; `outside`: one that is not state. */
export interface Target {
  readonly file: string
  readonly other: string
  readonly outside: string
}

const hugeBytes = 100 * 1024 * 1024

/** One way each to damage a whole file. */
export const damages: Readonly<Record<string, (target: Target) => void>> = {
  empty: ({ file }) => truncateSync(file, 0),
  'cut short': ({ file }) => truncateSync(file, Math.floor(statSync(file).size / 2)),
  noise: ({ file }) => writeFileSync(file, Buffer.from(Array.from({ length: 300 }, (_, at) => (at * 167 + 13) % 256))),
  'JSON of another shape': ({ file }) => writeFileSync(file, wrongShapeOf(readFileSync(file, 'utf8'))),
  'a JSON list': ({ file }) => writeFileSync(file, '[{"format":3,"id":null}]'),
  huge: ({ file }) => {
    const fd = openSync(file, 'r+')
    ftruncateSync(fd, hugeBytes)
    closeSync(fd)
  },
  'a directory': ({ file }) => {
    rmSync(file)
    mkdirSync(file)
    writeFileSync(`${file}/something`, 'here')
  },
  'a pipe': ({ file }) => {
    rmSync(file)
    execFileSync('mkfifo', ['-m', '600', file])
  },
  "a link to another attachment's file": ({ file, other }) => linkTo(file, other),
  'a link to a file outside': ({ file, outside }) => linkTo(file, outside),
  'a link to nowhere': ({ file }) => linkTo(file, '/nonexistent/file'),
  "another attachment's": ({ file, other }) => {
    const text = readFileSync(other)
    rmSync(file)
    writeFileSync(file, text)
  },
  removed: ({ file }) => rmSync(file),
}

/** Numbers from 0 up to 1 that follow from a seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
}

/** Every file below a directory, as paths relative to it, sorted. */
export function filesBelow(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(directory.length + 1))
    .sort()
}

/** The same keys with values of other types; what is no JSON object becomes one. */
function wrongShapeOf(text: string): string {
  const wrong = (value: unknown, depth: number): unknown => {
    if (Array.isArray(value)) return { was: 'a list' }
    if (typeof value === 'object' && value !== null && depth < 2)
      return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, wrong(each, depth + 1)]))
    return typeof value === 'string' ? 5 : 'text'
  }
  try {
    // What says whose the record is stays: only then is the rest of it looked at.
    const value = JSON.parse(text) as Record<string, unknown>
    const { format, id, writer, netns, name } = value
    const kept = Object.entries({ format, id, writer, netns, name }).filter(([, each]) => each !== undefined)
    return JSON.stringify({ ...(wrong(value, 0) as object), ...Object.fromEntries(kept) })
  } catch {
    return '{"was":"a text"}'
  }
}

function linkTo(file: string, to: string): void {
  rmSync(file)
  symlinkSync(dirname(to) === dirname(file) ? basename(to) : to, file)
}
