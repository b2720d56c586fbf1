// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** A damaged record is used as far as it is sound; one of another version keeps pod, address and port. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a part of any shape is believed',
    file: 'src/plan/state/kinds.ts',
    find: 'if (!accepts(value)) return undefined',
    replace: 'accepts(value)',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/plan/state/state-files.property.test.ts',
      test: 'with anything in any one place is used without a crash',
    },
  },
  {
    name: 'a record of another version is no record',
    file: 'src/plan/state/state-files.ts',
    find: "typeof found === 'number' ?",
    replace: 'found === 1 ?',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/record-format.test.ts',
      test: 'of format %i keeps its pod, its address and its port, and goes with DEL',
    },
  },
]
