// SPDX-License-Identifier: Apache-2.0
// Where records are: a ring for each verb, so that a runtime's STATUS every 500 ms leaves an ADD alone. Failures have
// rings of their own, which no recording empties: for STATUS, and for all other verbs together.

import { lstatSync, rmSync } from 'node:fs'
import { makeDirectory, namesIn, writeText } from '../../system/files/files.ts'
import { timestamp } from '../../system/process/clock.ts'

export type RingName = 'records' | 'failures'

/** The verbs that have a ring, with the parts of a ring's room. Any other word of CNI_COMMAND goes to the last. */
const shares = { ADD: 0.5, DEL: 0.25, CHECK: 0.1, GC: 0.05, STATUS: 0.05, other: 0.05 } as const

const sizes = {
  records: { bytes: 16 * 1024 * 1024, calls: 600 },
  failures: { bytes: 2 * 1024 * 1024, calls: 50 },
} as const

/** A record on disk. */
export interface Kept {
  readonly id: string
  readonly ring: RingName
  readonly verb: string
  readonly path: string
}

/** The id of a call that began at `startedMs` (milliseconds since 1970): ids sort by time. */
export function recordId(startedMs: number): string {
  const [date = '', clock = ''] = timestamp(startedMs).split('T')
  return `${date.replaceAll('-', '')}-${clock.slice(0, 8).replaceAll(':', '')}-${clock.slice(9, 12)}-${process.pid}`
}

/** The longest record of a verb: a tenth of its room, and a whole pod network in any case. */
export function mostBytesOf(ring: RingName, verb: string): number {
  return Math.max(48 * 1024, Math.floor((sizes[ring].bytes * shares[ringOf(verb)]) / 10))
}

/** Writes a record, and removes the oldest of its ring. `keep`: the most calls of the verb. Throws when it cannot. */
export function keepRecord(root: string, kept: Pick<Kept, 'id' | 'ring' | 'verb'>, text: string, keep?: number): void {
  const { id, ring, verb } = kept
  const directory = `${root}/${ring}/${ringOf(verb)}`
  for (const each of [root, `${root}/${ring}`, directory]) {
    makeDirectory(each)
    requireOwn(each)
  }
  writeText(`${directory}/${id}.jsonl`, text)
  const verbs = sharing(ring, ringOf(verb))
  const share = verbs.reduce((sum, each) => sum + shares[each], 0)
  const { bytes, calls } = sizes[ring]
  const most = keep ?? (verbs.length > 1 ? calls : Math.max(2, Math.floor(calls * share)))
  removeOldest(
    verbs.map((each) => `${root}/${ring}/${each}`),
    { bytes: bytes * share, calls: most },
  )
}

type Verb = keyof typeof shares

/** The verbs whose records make room for each other: all failures but those of STATUS, which a runtime repeats. */
function sharing(ring: RingName, verb: Verb): readonly Verb[] {
  if (ring === 'records' || verb === 'STATUS') return [verb]
  return (Object.keys(shares) as Verb[]).filter((each) => each !== 'STATUS')
}

/** All records, the newest first. */
export function keptRecords(root: string, rings: readonly RingName[] = ['records', 'failures']): readonly Kept[] {
  const all = rings.flatMap((ring) =>
    Object.keys(shares).flatMap((verb) => recordsIn(`${root}/${ring}/${verb}`).map((id) => kept(root, ring, verb, id))),
  )
  return all.toSorted((a, b) => (a.id < b.id ? 1 : -1))
}

function kept(root: string, ring: RingName, verb: string, id: string): Kept {
  return { id, ring, verb, path: `${root}/${ring}/${verb}/${id}.jsonl` }
}

function ringOf(verb: string): Verb {
  return Object.hasOwn(shares, verb) ? (verb as Verb) : 'other'
}

/** Whoever else can write to the directory could lead our files elsewhere. */
function requireOwn(directory: string): void {
  const stat = lstatSync(directory)
  const isOwn = stat.isDirectory() && stat.uid === process.geteuid?.() && (stat.mode & 0o022) === 0
  if (!isOwn) throw new Error(`${directory} is not a directory of ours alone`)
}

function recordsIn(directory: string): readonly string[] {
  const names = namesIn(directory).filter((name) => name.endsWith('.jsonl') && !name.startsWith('.'))
  return names.map((name) => name.slice(0, -'.jsonl'.length)).toSorted()
}

/** Temporary files of killed calls are older than any call lasts. */
const longestCallMs = 60_000

function removeOldest(directories: readonly string[], most: { readonly bytes: number; readonly calls: number }): void {
  let [bytes, calls] = [0, 0]
  const all = directories.flatMap((directory) =>
    recordsIn(directory).map((id) => ({ id, path: `${directory}/${id}.jsonl` })),
  )
  for (const { path } of all.toSorted((a, b) => (a.id < b.id ? 1 : -1))) {
    calls += 1
    bytes += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0
    // Another call may have removed it meanwhile.
    if (calls > most.calls || bytes > most.bytes) rmSync(path, { force: true })
  }
  const temporary = directories.flatMap((directory) =>
    namesIn(directory).flatMap((name) => (name.startsWith('.') ? [`${directory}/${name}`] : [])),
  )
  for (const path of temporary) {
    const made = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (Date.now() - made > longestCallMs) rmSync(path, { force: true })
  }
}
