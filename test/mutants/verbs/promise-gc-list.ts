// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** GC removes what is not on the list; without a list it removes nothing. */
export const mutants: readonly Mutant[] = [
  {
    name: 'an absent list is an empty one',
    file: 'src/commands/verbs/gc.ts',
    find: 'if (conf.validAttachments !== undefined) {',
    replace: '{',
    caughtBy: { project: 'netns', file: 'test/netns/teardown/gc.test.ts', test: 'without a list removes nothing' },
  },
  {
    name: 'another interface of a listed container stays',
    file: 'src/commands/verbs/gc.ts',
    find: 'containerId === id.containerId && ifName === id.ifName',
    replace: "containerId === id.containerId && ifName !== ''",
    caughtBy: { project: 'netns', file: 'test/netns/teardown/gc.test.ts', test: 'with %s removes all of this network' },
  },
]
