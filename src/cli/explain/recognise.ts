// SPDX-License-Identifier: Apache-2.0
// What is known of a pasted text: errors of others by their words, and our own codes, as JSON or by their messages.

import { type ErrorCode, errorCodes } from '../error-codes.ts'
import { type KnownError, knownErrors } from './known-errors.ts'

/** How the messages of our codes begin or what they hold, where a runtime prints them without the code. */
const ownMessages: readonly (readonly [code: number, pattern: RegExp])[] = [
  [101, /no IP addresses available in range set/],
  [102, /requested address|is reserved by|failed to allocate for range \d+: (?!no IP addresses)/],
  [103, /container \S+ already has \S+ on network/],
  [104, /host port \S+ .*is taken/],
  [105, /cannot find the IPAM plugin|the IPAM plugin \S+ (?:was ended|ended with|returned no|answered)/],
  [108, /already has an IP address different from|already exists but is not a bridge|was made without VLAN filtering/],
  [109, /rules of \S+ of container \S+ may be left/],
  [11, /another call is working on|did not finish in time|cannot write down what is owed/],
]

/** What a text holds, the most telling first. `said`: the words that were recognised. */
export interface Recognised {
  readonly errors: readonly (KnownError & { readonly said: string })[]
  readonly codes: readonly ErrorCode[]
}

/** Texts longer than this are cut: an event or a log line is far below. */
const longest = 64 * 1024

/** Everything known in a text. */
export function recognise(text: string): Recognised {
  const whole = text.slice(0, longest)
  const errors = knownErrors.flatMap((known) => {
    const found = known.pattern.exec(whole)
    return found === null ? [] : [{ ...known, said: found[0] }]
  })
  // kubelet and containerd quote what they pass on: \"code\":101.
  const numbers = [...whole.matchAll(/\\?"code\\?":\s*(\d{1,3})\b/g)].map((match) => Number(match[1]))
  const byMessage = ownMessages.filter(([, pattern]) => pattern.test(whole)).map(([code]) => code)
  const codes = errorCodes.filter(({ code }) => [...numbers, ...byMessage].includes(code))
  return { errors, codes }
}

/** The known error with this id. */
export function knownError(id: string): KnownError | undefined {
  return knownErrors.find((known) => known.id === id)
}
