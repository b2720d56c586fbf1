// SPDX-License-Identifier: Apache-2.0
// A long list of cases split over several runs: TRESTLE_TEST_PART=3/20 plays every twentieth from the third on.

/** The cases of this run's part; all without a part. Throws on another text than `3/20`: a part that nobody plays is green. */
export function ofThisPart<T>(cases: readonly T[]): readonly T[] {
  const text = process.env['TRESTLE_TEST_PART'] ?? '1/1'
  const [, nth = 0, of = 0] = (/^(\d+)\/(\d+)$/.exec(text) ?? []).map(Number)
  if (nth < 1 || nth > of) throw new Error(`TRESTLE_TEST_PART=${text}: wanted is for example 3/20`)
  return cases.filter((_, at) => at % of === nth - 1)
}
