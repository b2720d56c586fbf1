// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What makes a version under another name an IPAM plugin, or a stranger to its own records, and the tests that see it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'the name by which a link to the executable was called is not its type',
    file: 'src/system/ipam/own-types.ts',
    find: '[process.argv0, process.execPath]',
    replace: '[process.execPath]',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/edge/own-name.test.ts',
      test: 'is a whole plugin under its own name, and shares state with the one called trestle',
    },
  },
  {
    name: 'a configuration has another digest under each name of the executable',
    file: 'src/plan/recovery/config-digest.ts',
    find: "isOwn && isObject(value) && Object.hasOwn(value, 'type')",
    replace: "!isOwn && isObject(value) && Object.hasOwn(value, 'type')",
    caughtBy: {
      project: 'unit',
      file: 'test/unit/plan/recovery/config-digest.test.ts',
      test: 'is the same under every name of the executable',
    },
  },
]
