// SPDX-License-Identifier: Apache-2.0
// Keeps the agent's own memory small, because an agent runs on every node for the node's whole life.

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Limits V8. The young generation would grow to 64 MB and seldom shrink (v8/src/flags/flag-definitions.h,
 * semi_space_growth_factor). No function runs long enough to be worth the optimizing compiler, whose code is 7 MB of
 * the executable; the baseline compiler is enough. Marking runs at once, in 10 ms: incremental and concurrent marking
 * and the memory reducer (v8/src/heap/memory-reducer.cc) took a fifth of an idle agent's CPU. --optimize-for-size would
 * make an event of the watch cost half as much again, at the same peak.
 */
export function keepHeapSmall(): void {
  for (const flag of ['--semi-space-growth-factor=1', '--no-opt', '--sparkplug', '--no-incremental-marking'])
    setFlagsFromString(flag)
}

let collect: (() => void) | undefined

/**
 * Collects garbage in some 20 ms of CPU and returns memory to the system; an idle agent allocates too little for V8.
 */
export function shrinkHeap(): void {
  // V8 adds `gc` to contexts that are made while the flag is set (v8/src/extensions/gc-extension.h).
  if (collect === undefined) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as () => void
    setFlagsFromString('--no-expose-gc')
  }
  collect()
}
