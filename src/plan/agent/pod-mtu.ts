// SPDX-License-Identifier: Apache-2.0
// A pod keeps the MTU that the uplink had when it was attached.

import type { Problem } from './problem.ts'

/** What is wrong where the uplink's MTU is another one by now. `pods`: the MTU of each pod of the node; bytes. */
export function mtuProblems(node: string, uplink: number | undefined, pods: readonly number[]): readonly Problem[] {
  if (uplink === undefined) return []
  const others = pods.filter((mtu) => mtu !== uplink)
  if (others.length === 0) return []
  const theirs = [...new Set(others)].sort((a, b) => a - b).join(', ')
  // Their number would make a new problem of it with each pod that goes.
  return [
    {
      id: 'MtuChanged',
      node,
      text: `the uplink has MTU ${uplink}, pods here have ${theirs}: new ones get ${uplink}, start the others again`,
    },
  ]
}
