// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What a live pod holds is never taken over, nor where that cannot be told. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a path that is no namespace here counts as gone',
    file: 'src/system/kernel/netns.ts',
    find: "if (statfsSync(identity.path).type !== nsfsMagic) return 'unknown'",
    replace: "if (statfsSync(identity.path).type !== nsfsMagic) return 'gone'",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/pool.test.ts',
      test: 'does not take back what a pod holds whose namespace path is no namespace here',
    },
  },
  {
    name: 'what an earlier boot left holds its address for ever',
    file: 'src/commands/teardown/attachments.ts',
    find: "return host === 'ended' || (host === 'here' &&",
    replace: "return host === 'here' && (host === 'here' &&",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/pool.test.ts',
      test: 'does take back what a restart of the machine ended',
    },
  },
]
