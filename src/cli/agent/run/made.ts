// SPDX-License-Identifier: Apache-2.0
// Reuses a value of the last round while its inputs are unchanged, as nearly all are while the agent rests.

/** A value with its inputs. */
export interface Made<T> {
  readonly from: readonly unknown[]
  readonly value: T
}

/**
 * The value of `make` for the inputs `from`; `before` if each input is the same object, text or number as then. `make`
 * must depend on `from` alone.
 */
export function madeFrom<T>(before: Made<T> | undefined, from: readonly unknown[], make: () => T): Made<T> {
  const isSame = before?.from.length === from.length && from.every((each, at) => Object.is(each, before.from[at]))
  return isSame ? before : { from, value: make() }
}
