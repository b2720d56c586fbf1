// SPDX-License-Identifier: Apache-2.0
// Numbers that depend on a seed alone, so that a soak can be repeated.

import { randomFrom as fractionsFrom } from '../support/damage/damage.ts'

/** A source of random choices. */
export interface Random {
  /** 0 or more, less than 1. */
  readonly fraction: () => number
  /** A whole number from `low` to `high`, both included. */
  readonly between: (low: number, high: number) => number
  readonly pick: <T>(list: readonly T[]) => T
  readonly chance: (probability: number) => boolean
}

/** Choices that follow from a seed of 32 bits. */
export function randomFrom(seed: number): Random {
  const fraction = fractionsFrom(seed)
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
