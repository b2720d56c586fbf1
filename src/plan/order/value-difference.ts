// SPDX-License-Identifier: Apache-2.0
// The sentence for one value that is not as wanted.

/** What differs, for people; empty when nothing does. */
export function valueDifference(what: string, is: string | number, wanted: string | number): readonly string[] {
  return is === wanted ? [] : [`${what} is ${is}, not ${wanted}`]
}
