// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** A transaction says nothing about what others put there meanwhile. */
export const mutants: readonly Mutant[] = [
  {
    name: 'what is gone already fails the whole transaction',
    file: 'src/tools/nft.ts',
    find: 'return `${addText(op)}\\ndelete element',
    replace: 'return `delete element',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/tools/nft.test.ts',
      test: 'are deleted by key, after they are there for certain',
    },
  },
  {
    name: 'a base that is said again empties its sets',
    file: 'src/tools/nft.ts',
    find: '    ...chains.map((chain) => `flush chain ${table} ${chain.name}`),',
    replace: '    `flush table ${table}`,\n    ...sets.map((set) => `flush set ${setAt(set)}`),',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/tools/nft.test.ts',
      test: 'of table %s adds, and flushes its own chains only',
    },
  },
]
