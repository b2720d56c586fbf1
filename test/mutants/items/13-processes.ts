// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What starts programs twice, or forgets that nft is too old, and the tests that see it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'sysctls are set with the interface and again with the addresses of a delegated plugin',
    file: 'src/plan/order/facts.ts',
    find: 'return { ...spec, tuning: { ...spec.tuning, sysctl: {} } }',
    replace: 'return spec',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/processes/processes.test.ts',
      test: 'of an ADD with delegated IPAM set sysctls once',
    },
  },
  {
    name: 'the version of nft is kept whatever file is there',
    file: 'src/system/kernel/nft-version.ts',
    find: 'known?.path === path && known.inode === inode && known.mtimeMs === mtimeMs',
    replace: 'known?.path === path && (known.inode !== 0 || inode === mtimeMs)',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/processes/processes.test.ts',
      test: 'is known to STATUS after a setup',
    },
  },
]
