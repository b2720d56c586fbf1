// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** ADD refuses its own network namespace, and what is no network namespace, before it touches anything. */
export const mutants: readonly Mutant[] = [
  {
    name: 'the namespace that trestle runs in is a pod’s',
    file: 'src/system/kernel/netns.ts',
    find: 'if (inode === ownNetnsInode()) throw',
    replace: 'if (inode !== inode) throw',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/interface/attachments.test.ts',
      test: 'into its own namespace is refused with code 4, whatever the path, and touches nothing',
    },
  },
  {
    name: 'a namespace of another kind is taken for one of the network',
    file: 'src/system/kernel/netns.ts',
    find: "return kind === undefined || kind === 'net'",
    replace: 'return true',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/interface/attachments.test.ts',
      test: 'into what is no network namespace is refused with code 4 and touches nothing',
    },
  },
]
