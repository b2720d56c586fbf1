// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** STATUS says 50 with the reason, and counts what can be reclaimed as free. */
export const mutants: readonly Mutant[] = [
  {
    name: 'addresses of dead pods count as used',
    file: 'src/commands/verbs/status.ts',
    find: '|| own.some(',
    replace: '|| own.slice(0, 0).some(',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/pool.test.ts',
      test: 'does take back what a restart of the machine ended',
    },
  },
  {
    name: 'a full pool is ready',
    file: 'src/commands/verbs/status.ts',
    find: 'if (BigInt(inSet.length) < total ||',
    replace: 'if (BigInt(inSet.length) <= total ||',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/pool.test.ts',
      test: 'that is full of live pods refuses ADD with 101 and STATUS with 50',
    },
  },
]
