// SPDX-License-Identifier: Apache-2.0
// A range that is nearly full is told before it is full: then STATUS says no, and the node's pods may be evicted.

import type { Problem } from './problem.ts'

/** A range, how many addresses of it cannot be given out now, and how many it has. */
export interface PoolUse {
  readonly range: string
  readonly taken: number
  readonly total: number
}

/** `leaked`: addresses that are held for pods that are gone. */
export interface PoolLook extends PoolUse {
  readonly leaked: readonly string[]
}

const fullFrom = 0.9
/** Less, so that a pod that comes and goes begins no new problem each time. */
const fullUntil = 0.8
const mostNamed = 10

/** Whether a range is nearly full; `was`: whether it was at the last look. */
export function isNearlyFull({ taken, total }: PoolUse, was: boolean): boolean {
  return taken >= total * (was ? fullUntil : fullFrom)
}

/** What is wrong with ranges that are nearly full. Their numbers would make a new problem with each pod. */
export function poolProblems(node: string, full: readonly PoolLook[]): readonly Problem[] {
  return full.map(({ range, total, leaked }) => {
    const named = [...leaked].sort().slice(0, mostNamed).join(', ')
    const held = leaked.length === 0 ? '' : `; held for pods that are gone: ${named}, see trestle gc`
    const text = `nine of ten of the ${total} addresses of ${range} are in use: soon no further pod starts${held}`
    return { id: 'PoolNearlyFull', node, text }
  })
}
