// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What lets a range take addresses of the node or of its router, and the tests that see it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'the first ADD of a network with an overlap only warns',
    file: 'src/plan/ipam/range-overlap.ts',
    find: 'refused: first === undefined || isLive ?',
    replace: 'refused: first === undefined || !isLive ?',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/range-overlap.test.ts',
      test: 'is refused before anything is made',
    },
  },
  {
    name: 'the address of another interface is left out for the first pod only',
    file: 'src/commands/attach/range-overlap.ts',
    find: 'excluded: known?.excluded ?? []',
    replace: 'excluded: []',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/range-overlap.test.ts',
      test: 'is given to no pod, then and later, and counts in STATUS',
    },
  },
]
