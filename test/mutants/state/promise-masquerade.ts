// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** One rule per family over sets of subnets: disjoint elements, exactly the sources and pairs of the networks. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a subnet inside another one’s is an element of its own',
    file: 'src/features/masquerade.ts',
    find: 'const apart = outermost(subnets.flatMap(toCidr))',
    replace: 'const apart = outermost([]).concat(subnets.flatMap(toCidr))',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/features/masquerade.property.test.ts',
      test: 'gives disjoint elements in every set',
    },
  },
  {
    name: 'the first network’s exceptions are all',
    file: 'src/features/masquerade.ts',
    find: 'const kept = rules.map(',
    replace: 'const kept = rules.slice(0, 1).map(',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/features/masquerade.property.test.ts',
      test: 'covers exactly the sources and pairs of the networks',
    },
  },
]
