// SPDX-License-Identifier: Apache-2.0
// Operations on queueing disciplines as lines for `tc -batch` (tc(8), tc-tbf(8), tc-u32(8)), and what tc prints.

import type { ObservedQueue } from './observed.ts'
import type { QueueOp } from './operation.ts'

/** How long a packet may wait in the queue of a full bucket, as with the reference bandwidth plugin. */
const latencyMs = 25

/** Sizes of tbf have 32 bits (iproute2 tc/q_tbf.c). */
export const mostBucketBytes = 2 ** 32 - 1

/** The lines of one operation, each as words. */
export function queueLines(op: QueueOp): readonly (readonly string[])[] {
  switch (op.kind) {
    case 'bucket.set': {
      const { rateBits, burstBytes } = op
      const limit = Math.min(Math.floor((rateBits / 8 / 1000) * latencyMs) + burstBytes, mostBucketBytes)
      const size = ['rate', `${rateBits}bit`, 'burst', `${burstBytes}b`, 'limit', `${limit}b`]
      return [['qdisc', 'replace', 'dev', op.dev, 'root', 'handle', '1:', 'tbf', ...size]]
    }
    case 'redirect.set':
      return [
        ['qdisc', 'replace', 'dev', op.dev, 'ingress'],
        // u32 with a match on nothing: some kernels lack cls_matchall. The handle makes a second run replace the first.
        [
          ...['filter', 'replace', 'dev', op.dev, 'parent', 'ffff:', 'protocol', 'all', 'prio', '1'],
          ...['handle', '800::800', 'u32', 'match', 'u32', '0', '0'],
          ...['action', 'mirred', 'egress', 'redirect', 'dev', op.to],
        ],
      ]
    case 'queue.delete':
      return [['qdisc', 'del', 'dev', op.dev, op.at]]
    default:
      return op satisfies never
  }
}

interface TcEntry {
  readonly kind?: string
  readonly dev?: string
  readonly root?: boolean
  readonly handle?: string
  readonly options?: {
    readonly rate?: number
    readonly burst?: number
    readonly actions?: readonly { readonly to_dev?: string }[]
  }
}

/** What `tc -j -batch` printed: one list of entries for each line about a link that is there, in order. */
export function readTcAnswers(stdout: string): readonly (readonly TcEntry[])[] {
  const answers = stdout.split(/\n(?=\[)/).filter((answer) => answer.startsWith('['))
  return answers.map((answer) => {
    try {
      return JSON.parse(answer) as TcEntry[]
    } catch {
      // u32 prints words before iproute2 5.18 (tc/f_u32.c), qfq and others still do: cut where an entry begins.
      return answer
        .slice(1)
        .split(/(?=\{"(?:kind|protocol)":)/)
        .map(readBrokenEntry)
    }
  })
}

function readBrokenEntry(text: string): TcEntry {
  try {
    return JSON.parse(text.trim().replace(/[,\]]$/, '')) as TcEntry
  } catch {
    const word = (name: string) => new RegExp(`"${name}":"([^"\\\\]*)"`).exec(text)?.[1] ?? ''
    const options = { actions: text.includes('"to_dev"') ? [{ to_dev: word('to_dev') }] : [] }
    return { kind: word('kind'), dev: word('dev'), handle: word('handle'), root: text.includes('"root":true'), options }
  }
}

/** The queueing of one link from all entries about it. */
export function readQueue(entries: readonly TcEntry[]): ObservedQueue {
  const bucket = entries.find((entry) => entry.kind === 'tbf' && entry.root === true)?.options
  // Handle 0 is what the kernel gives a link by itself.
  const root = entries.find((entry) => entry.root === true && entry.handle !== '0:')?.kind
  const redirect = entries.flatMap((entry) => entry.options?.actions ?? []).find(({ to_dev }) => to_dev !== undefined)
  return {
    // tc prints bytes a second.
    ...(bucket?.rate === undefined ? {} : { rateBits: bucket.rate * 8 }),
    ...(bucket?.burst === undefined ? {} : { burstBytes: bucket.burst }),
    ...(root === undefined ? {} : { root }),
    hasIngress: entries.some(({ kind }) => kind === 'ingress' || kind === 'clsact'),
    ...(redirect?.to_dev === undefined ? {} : { redirectTo: redirect.to_dev }),
  }
}
