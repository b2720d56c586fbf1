// SPDX-License-Identifier: Apache-2.0
// What is known of a pasted text: errors of others by their words, and our own codes, as JSON or by their messages.

import { CniCode } from '../../cni/error.ts'
import { type ErrorCode, errorCodes } from '../error-codes.ts'
import { type KnownError, knownErrors, ownError } from './known-errors.ts'
import { failedCommand, ownMessages } from './own-messages.ts'

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
  // kubelet and containerd quote what they pass on: \"code\":101. `trestle try` begins a line with "code 101:".
  const numbers = [...whole.matchAll(/(?:\\?"code\\?":|^\s*code:?)\s*(\d{1,3})\b/gm)].map((match) => Number(match[1]))
  const said = [...numbers, ...codesByMessage(whole)]
  const codes = errorCodes.filter(({ code }) => said.includes(code))
  const own = errors.length + codes.length > 0 ? null : ownError.pattern.exec(whole)
  return { errors: own === null ? errors : [{ ...ownError, said: own[0] }], codes }
}

/** The codes of our own messages. The quoted command tells something only where the message before it does not. */
function codesByMessage(text: string): readonly number[] {
  const codes = ownMessages.filter(([, pattern]) => pattern.test(text)).map(([code]) => code)
  return codes.length === 0 && failedCommand.test(text) ? [CniCode.commandFailed] : codes
}

/** The known error with this id. */
export function knownError(id: string): KnownError | undefined {
  return [...knownErrors, ownError].find((known) => known.id === id)
}
