// SPDX-License-Identifier: Apache-2.0
// An order that a seed decides, so that a run can be had again.

import { createHash } from 'node:crypto'

/** The same things in the order of the seed: by a hash of it and of what each is. */
export function shuffled<T>(things: readonly T[], seed: number): readonly T[] {
  const keyed = things.map((thing) => {
    return {
      thing,
      key: createHash('sha256')
        .update(`${seed} ${JSON.stringify(thing)}`)
        .digest('hex'),
    }
  })
  return keyed.toSorted((a, b) => (a.key < b.key ? -1 : 1)).map(({ thing }) => thing)
}

/** Numbers from 0 to below `n`, one after the other, that a seed decides. */
export function numbers(seed: number): (n: number) => number {
  let drawn = 0
  return (n) => {
    drawn += 1
    const hash = createHash('sha256').update(`${seed} ${drawn}`).digest()
    return hash.readUInt32BE(0) % n
  }
}
