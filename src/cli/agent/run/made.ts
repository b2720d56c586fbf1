// SPDX-License-Identifier: Apache-2.0
// A value of the round before, which is this round's, too, where it would be made from the same things: at rest nearly
// all of them are, and an agent is at rest nearly always.

/** A value, and what it was made from. */
export interface Made<T> {
  readonly from: readonly unknown[]
  readonly value: T
}

/**
 * The value that `make` gives for `from`; not made again where each of these is what it was for `before`: the same
 * object, the same text or number. What `make` gives has to depend on nothing else.
 */
export function madeFrom<T>(before: Made<T> | undefined, from: readonly unknown[], make: () => T): Made<T> {
  const isSame = before?.from.length === from.length && from.every((each, at) => Object.is(each, before.from[at]))
  return isSame ? before : { from, value: make() }
}
