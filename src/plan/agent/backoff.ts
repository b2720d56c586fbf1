// SPDX-License-Identifier: Apache-2.0
// How long to wait before the API server is asked again. Thousands of agents ask one server: none in step with others.

const firstMs = 500
const longestMs = 30_000

/**
 * Milliseconds to wait after `failures` failures in a row. `chance`: 0 to 1. `askedMs`: Retry-After, where it was said.
 */
export function backoffMs(failures: number, chance: number, askedMs = 0): number {
  const most = Math.min(longestMs, firstMs * 2 ** Math.min(failures, 16))
  const waited = most * (0.5 + chance / 2)
  // A server that asks for an hour is not believed: the node would be blind for as long.
  return Math.max(waited, Math.min(askedMs, 2 * longestMs))
}
