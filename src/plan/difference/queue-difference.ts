// SPDX-License-Identifier: Apache-2.0
// In which ways a link's queueing is not as it was set up.

import type { ObservedQueue } from '../model/observed.ts'
import type { Op } from '../model/op.ts'

type QueueOp = Extract<Op, { kind: 'filter.redirect' | 'qdisc.tbf' | 'qdisc.ingress' }>

/** tc rounds rates to bytes and bursts to its clock's ticks (tc/tc_core.c): a hundredth is no difference. */
const tolerance = 0.01
/**
 * Nor is a bucket that fills so much sooner: tc cuts the time to whole microseconds when it sets and when it shows it.
 */
const cutS = 2e-6

/** What differs, for people; empty when all holds or queues were not looked at. */
export function queueDifference(
  op: QueueOp,
  queues: ReadonlyMap<string, ObservedQueue> | undefined,
): readonly string[] {
  if (queues === undefined) return []
  const queue = queues.get(op.dev)
  switch (op.kind) {
    case 'qdisc.ingress':
      return queue?.hasIngress ? [] : [`ingress qdisc is missing on ${op.dev}`]
    case 'filter.redirect':
      return queue?.redirectTo === op.to ? [] : [`filter to ${op.to} is missing on ${op.dev}`]
    case 'qdisc.tbf':
      if (queue?.rateBits === undefined) return [`bandwidth limit is missing on ${op.dev}`]
      return [
        ...(isNear(queue.rateBits, op.rateBits)
          ? []
          : [`bandwidth limit on ${op.dev} is ${queue.rateBits} bit/s, not ${op.rateBits}`]),
        ...(isNear(queue.burstBytes ?? 0, op.burstBytes, (op.rateBits / 8) * cutS)
          ? []
          : [`burst on ${op.dev} is ${queue.burstBytes ?? 0} bytes, not ${op.burstBytes}`]),
      ]
    default:
      return op satisfies never
  }
}

function isNear(is: number, wanted: number, margin = 8): boolean {
  return Math.abs(is - wanted) <= Math.max(wanted * tolerance, margin, 8)
}
