// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** A lock is taken over from a dead holder only, and waits are bounded. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a holder of another pid namespace is dead',
    file: 'src/system/process/process-identity.ts',
    find: 'return isOlder(identity, writtenMs, longestCallMs)',
    replace: 'return true',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/processes/lock.test.ts',
      test: 'is not taken from a process of another pid namespace, of which nothing can be told',
    },
  },
  {
    name: 'a live holder is waited for without end',
    file: 'src/system/store/lock.ts',
    find: 'const until = Math.min(from + request.waitMs,',
    replace: 'const until = Math.min(from + 100 * request.waitMs,',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/processes/lock.test.ts',
      test: 'waits for a live holder no longer than asked, and names it',
    },
  },
]
