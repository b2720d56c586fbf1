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
