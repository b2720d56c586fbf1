// SPDX-License-Identifier: Apache-2.0
// A pod keeps the MTU that it was attached with: the uplink's, or the template's.

import type { Problem } from './problem.ts'

/** The MTU of new pods and who says so; `bytes` is undefined where nobody knows. */
export interface MtuWanted {
  readonly bytes: number | undefined
  readonly by: 'uplink' | 'template'
}

/** What is wrong where new pods get another MTU by now. `pods`: the MTU of each pod of the node; bytes. */
export function mtuProblems(node: string, { bytes, by }: MtuWanted, pods: readonly number[]): readonly Problem[] {
  if (bytes === undefined) return []
  const others = pods.filter((mtu) => mtu !== bytes)
  if (others.length === 0) return []
  const theirs = [...new Set(others)].sort((a, b) => a - b).join(', ')
  // Their number would make a new problem of it with each pod that goes.
  return [
    {
      id: 'MtuChanged',
      node,
      text: `the ${by} has MTU ${bytes}, pods here have ${theirs}: new ones get ${bytes}, start the others again`,
    },
  ]
}
