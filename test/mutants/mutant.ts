// SPDX-License-Identifier: Apache-2.0
// A mutant is a small defect in the source that a named test must see. `npm run mutants` makes each in a copy of the
// tree, builds, runs its test and wants it red: a test that stays green guards nothing.

/**
 * One defect. `find` occurs exactly once in `file`; `test` is the test's name, or a part of it, as it stands in
 * `caughtBy.file`: `%s` or `$name` is any text.
 */
export interface Mutant {
  /** One sentence: what the defect does. */
  readonly name: string
  readonly file: string
  readonly find: string
  readonly replace: string
  readonly caughtBy: {
    readonly project: 'unit' | 'netns' | 'e2e' | 'faults'
    readonly file: string
    readonly test: string
  }
}
