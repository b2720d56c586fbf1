// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** An address has one holder: who was first says link(2). */
export const mutants: readonly Mutant[] = [
  {
    name: 'a name that link(2) finds taken counts as ours',
    file: 'src/system/files/files.ts',
    find: "if (code === 'EEXIST') return false",
    replace: "if (code === 'EEXIST') return true",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/pool.test.ts',
      test: 'that a live pod holds is refused, naming the pod',
    },
  },
  {
    name: 'an address that somebody else has is ours too',
    file: 'src/system/store/addresses.ts',
    find: 'return linkOnce(intentFile, `${files.addresses}/${address}`)',
    replace: 'return linkOnce(intentFile, `${files.addresses}/${address}`) || true',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ipam/pool.test.ts',
      test: 'that a live pod holds is refused, naming the pod',
    },
  },
]
