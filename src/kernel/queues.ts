// SPDX-License-Identifier: Apache-2.0
// Operations on queueing disciplines as lines for `tc -batch` (tc(8), tc-tbf(8), tc-u32(8)).

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
