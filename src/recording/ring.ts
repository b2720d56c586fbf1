// SPDX-License-Identifier: Apache-2.0
// Where records are: a file for each call, in a ring for each verb, so that a runtime that asks STATUS every half second
// pushes out no ADD. Failures have rings of their own.

import { lstatSync } from 'node:fs'
import { makeDirectory, namesIn, removeFile, sweepTemporaryFiles, writeText } from '../state/files.ts'

export type RingName = 'records' | 'failures'

/** Of each verb. A runtime asks STATUS again and again, and a failure of it says the same each time. */
const sizes = {
  records: { bytes: 16 * 1024 * 1024, calls: 100, statusCalls: 100 },
  failures: { bytes: 2 * 1024 * 1024, calls: 50, statusCalls: 2 },
} as const

const verbs = ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'other'] as const
type RingVerb = (typeof verbs)[number]

/** Ids sort by time. `startedMs`: milliseconds since 1970. */
export function recordId(startedMs: number): string {
  const [date = '', clock = ''] = new Date(startedMs).toISOString().split('T')
  return `${date.replaceAll('-', '')}-${clock.slice(0, 8).replaceAll(':', '')}-${clock.slice(9, 12)}-${process.pid}`
}

/** The longest record: a tenth of the ring, so that one call does not push out all others. */
export function mostBytesOf(ring: RingName): number {
  return sizes[ring].bytes / 10
}

/** Writes a record and removes the oldest of its ring. `keep`: how many calls of the verb. Throws where it cannot. */
export function keepRecord(
  root: string,
  { ring, verb, id }: { ring: RingName; verb: string; id: string },
  text: string,
  keep?: number,
): void {
  const own: RingVerb = verbs.find((each) => each === verb) ?? 'other'
  const directory = `${root}/${ring}/${own}`
  for (const each of [root, `${root}/${ring}`, directory]) {
    makeDirectory(each)
    requireOwn(each)
  }
  writeText(`${directory}/${id}.jsonl`, text)
  sweepTemporaryFiles(directory)
  removeOldest(directory, sizes[ring].bytes, keep ?? (own === 'STATUS' ? sizes[ring].statusCalls : sizes[ring].calls))
}

/** Whoever else can write there could lead our files elsewhere. */
function requireOwn(directory: string): void {
  const stat = lstatSync(directory)
  const isOwn = stat.isDirectory() && stat.uid === process.geteuid?.() && (stat.mode & 0o022) === 0
  if (!isOwn) throw new Error(`${directory} is not a directory of ours alone`)
}

function removeOldest(directory: string, mostBytes: number, mostCalls: number): void {
  const names = namesIn(directory).filter((name) => name.endsWith('.jsonl'))
  let [bytes, calls] = [0, 0]
  for (const name of names.toSorted().toReversed()) {
    const path = `${directory}/${name}`
    calls += 1
    bytes += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0
    if (calls > mostCalls || bytes > mostBytes) removeFile(path)
  }
}

/** A record on disk. */
export interface Kept {
  readonly id: string
  readonly ring: RingName
  readonly verb: string
  readonly path: string
}

/** All records, the newest first. */
export function keptRecords(root: string, rings: readonly RingName[] = ['records', 'failures']): readonly Kept[] {
  const all: Kept[] = []
  for (const ring of rings)
    for (const verb of verbs)
      for (const name of namesIn(`${root}/${ring}/${verb}`))
        if (/^[^.].*\.jsonl$/.test(name))
          all.push({ id: name.slice(0, name.lastIndexOf('.')), ring, verb, path: `${root}/${ring}/${verb}/${name}` })
  return all.sort((a, b) => (a.id < b.id ? 1 : -1))
}
