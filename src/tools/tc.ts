// SPDX-License-Identifier: Apache-2.0
// Operations to the arguments of one `tc` command each (tc(8), tc-tbf(8)).

import type { Op } from '../model/op.ts'

/** Operations that `tc` runs. */
export type TcOp = Extract<Op, { kind: 'filter.redirect' | `qdisc.${string}` }>

/** The words after `tc` for one operation; one line of a batch. */
export function tcWords(op: TcOp): readonly string[] {
  switch (op.kind) {
    case 'qdisc.tbf': {
      const size = ['rate', `${op.rateBits}bit`, 'burst', `${op.burstBytes}b`, 'limit', `${op.limitBytes}b`]
      return ['qdisc', 'replace', 'dev', op.dev, 'root', 'handle', '1:', 'tbf', ...size]
    }
    case 'qdisc.ingress':
      return ['qdisc', 'replace', 'dev', op.dev, 'ingress']
    case 'qdisc.del':
      return ['qdisc', 'del', 'dev', op.dev, op.at]
    case 'filter.redirect':
      // u32 with a match on nothing: kernels without cls_matchall have it, and so has upstream.
      return [
        ...[
          'filter',
          'replace',
          'dev',
          op.dev,
          'parent',
          'ffff:',
          'protocol',
          'all',
          'prio',
          '1',
          'handle',
          '800::800',
        ],
        ...['u32', 'match', 'u32', '0', '0', 'action', 'mirred', 'egress', 'redirect', 'dev', op.to],
      ]
    default:
      return op satisfies never
  }
}
