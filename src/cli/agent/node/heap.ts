// SPDX-License-Identifier: Apache-2.0
// The agent's own memory, kept small: it is on every node, for as long as the node is.

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * V8 gives the young part of the heap back, which it would let grow to 64 MB and seldom shrink
 * (v8/src/flags/flag-definitions.h, semi_space_growth_factor). Nothing here is computed for long enough to be worth the
 * optimizing compiler, whose own code alone is 7 MB of the program's file; the baseline one does. The heap is marked at
 * once, which takes 10 ms, and only where it has grown: in steps, on another thread and again after a while
 * (v8/src/heap/memory-reducer.cc) it took a fifth of what an agent at rest does. Not --optimize-for-size: an event of
 * the watch costs half as much again with it, and the peak is the same.
 */
export function keepHeapSmall(): void {
  for (const flag of ['--semi-space-growth-factor=1', '--no-opt', '--sparkplug', '--no-incremental-marking'])
    setFlagsFromString(flag)
}

let collect: (() => void) | undefined

/**
 * Collects garbage now, which gives memory back to the system: an agent at rest allocates too little for V8 to do it
 * by itself. Some 20 ms of CPU.
 */
export function shrinkHeap(): void {
  // A function of contexts that are made while the flag is set (v8/src/extensions/gc-extension.h).
  if (collect === undefined) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as () => void
    setFlagsFromString('--no-expose-gc')
  }
  collect()
}
