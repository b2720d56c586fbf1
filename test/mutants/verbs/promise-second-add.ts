// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** A second ADD of a live attachment is refused and harms nothing. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a live attachment is taken down for the second ADD',
    file: 'src/commands/attach/intent.ts',
    find: 'if (stored.isPending || !isDead(stored, context)) throw',
    replace: 'if (stored.isPending) throw',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/interface/attachments.test.ts',
      test: 'of a live attachment is refused and harms nothing',
    },
  },
  {
    name: 'an ADD that finished after the look before the intent record is not seen',
    file: 'src/commands/attach/intent.ts',
    find: 'if (finished !== undefined) throw taken(finished, false)',
    replace: 'void finished',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/processes/races.test.ts',
      test: 'of two ADDs of one attachment one is refused, even where it had looked before the other began',
    },
  },
]
