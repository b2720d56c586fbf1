// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What hides that a list has two chained entries, and the tests that see it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'the second chained entry of a list is told that the container has had its ADD',
    file: 'src/commands/attach/intent.ts',
    find: 'return isSecond ? chainedTwice(key) : taken(record, isPending)',
    replace: 'return isSecond && isPending ? chainedTwice(key) : taken(record, isPending)',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/chained/chained-twice.test.ts',
      test: 'is refused with the cure, and the pod can be deleted',
    },
  },
  {
    name: 'lint counts only entries that say mode: chained',
    file: 'src/cli/lint/file.ts',
    find: "const mode = lookUp(conf, 'mode') ?? usualMode(index > 0)",
    replace: "const mode = lookUp(conf, 'mode')",
    caughtBy: {
      project: 'unit',
      file: 'test/unit/cli/lint/file.test.ts',
      test: 'two chained entries of trestle',
    },
  },
]
