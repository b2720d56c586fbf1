// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** No word from outside can be read as something else by a tool. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a comment sign reaches a batch',
    file: 'src/tools/batches.ts',
    find: 'const unbearable = /[#',
    replace: 'const unbearable = /[',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/tools/batch-line.property.test.ts',
      test: 'is read back by iproute2 as the same words, or refuses them',
    },
  },
  {
    name: 'a pattern reaches an nft set',
    file: 'src/tools/nft.ts',
    find: '[\\w!$&()+,.:-@',
    replace: '[\\w!$&()*+,.:-@',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/tools/nft.test.ts',
      test: 'are refused when they are not plain: %j',
    },
  },
]
