// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** CHECK names every difference at once. */
export const mutants: readonly Mutant[] = [
  {
    name: 'only the first difference is told',
    file: 'src/commands/verbs/check.ts',
    find: '[...new Set(found)].join(',
    replace: 'found.slice(0, 1).join(',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/check/check.test.ts',
      test: 'several things are broken: it names all of them',
    },
  },
  {
    name: 'an operation that was not applied is no difference',
    file: 'src/plan/order/difference.ts',
    find: 'return linkDifference(op, place, observed)',
    replace: "return op.in === 'host' ? [] : linkDifference(op, place, observed)",
    caughtBy: {
      project: 'unit',
      file: 'test/unit/plan/difference.test.ts',
      test: 'is every operation, once, where there is nothing',
    },
  },
]
