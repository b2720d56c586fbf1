// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** A freed address is given out last of all, and no gateway or excluded address ever. */
export const mutants: readonly Mutant[] = [
  {
    name: 'the pool is tried from its start each time: an address that was just freed is given out again',
    file: 'src/plan/ipam/allocate.ts',
    find: 'const from = last === undefined ? undefined : parseAddress(last)',
    replace: 'const from = undefined as Address | undefined',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/plan/ipam/allocate.test.ts',
      test: 'a freed address is not given out again before the pool has gone around',
    },
  },
  {
    name: 'the gateways of a range set can be given to pods',
    file: 'src/plan/ipam/allocate.ts',
    find: 'return [...points, ...prefixes]',
    replace: 'return prefixes',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/plan/ipam/allocate.property.test.ts',
      test: 'tries each usable address once and nothing else',
    },
  },
  {
    name: 'a freed address has no cooldown',
    file: 'src/system/store/addresses.ts',
    find: 'return cooldownS > 0 && Math.abs',
    replace: 'return cooldownS < 0 && Math.abs',
    caughtBy: { project: 'netns', file: 'test/netns/ipam/pool.test.ts', test: 'a cooldown keeps a freed address back' },
  },
]
