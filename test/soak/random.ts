// SPDX-License-Identifier: Apache-2.0
// Numbers that depend on a seed alone, so that a soak can be repeated.

/** A source of random choices. */
export interface Random {
  /** 0 or more, less than 1. */
  readonly fraction: () => number
  /** A whole number from `low` to `high`, both included. */
  readonly between: (low: number, high: number) => number
  readonly pick: <T>(list: readonly T[]) => T
  readonly chance: (probability: number) => boolean
}

/** A generator with 32 bits of state: mulberry32, of which every seed has the full period. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0
  const fraction = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const between = (low: number, high: number): number => low + Math.floor(fraction() * (high - low + 1))
  return {
    fraction,
    between,
    pick: <T>(list: readonly T[]): T => list[between(0, list.length - 1)] as T,
    chance: (probability) => fraction() < probability,
  }
}

/** The entry of a list that lies at `fraction` of its length; undefined of an empty one. */
export function at<T>(list: readonly T[], fraction: number): T | undefined {
  return list[Math.floor(fraction * list.length)]
}
