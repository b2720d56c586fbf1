// SPDX-License-Identifier: Apache-2.0
// The records of calls that the core keeps (src/recording/ring.ts): a directory for each verb.

import { namesIn } from '../../system/files/files.ts'

export type RingName = 'records' | 'failures'

const verbs = ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'other'] as const

/** A record on disk. */
export interface Kept {
  readonly id: string
  readonly ring: RingName
  readonly verb: string
  readonly path: string
}

/** All records, the newest first. */
export function keptRecords(root: string, rings: readonly RingName[] = ['records', 'failures']): readonly Kept[] {
  const all = rings.flatMap((ring) => verbs.flatMap((verb) => recordsIn(root, ring, verb)))
  return all.toSorted((a, b) => (a.id < b.id ? 1 : -1))
}

function recordsIn(root: string, ring: RingName, verb: string): readonly Kept[] {
  const directory = `${root}/${ring}/${verb}`
  const names = namesIn(directory).filter((name) => name.endsWith('.jsonl') && !name.startsWith('.'))
  return names.map((name) => ({ id: name.slice(0, -'.jsonl'.length), ring, verb, path: `${directory}/${name}` }))
}
