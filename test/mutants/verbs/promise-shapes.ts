// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** Each version of the specification has its own shape of the result. */
export const mutants: readonly Mutant[] = [
  {
    name: 'an address before 1.0.0 says the other family',
    file: 'src/cni/result-shapes.ts',
    find: "version: familyOf(ip.address) === 6 ? '6' : '4', ...ip",
    replace: "version: familyOf(ip.address) === 6 ? '4' : '6', ...ip",
    caughtBy: { project: 'unit', file: 'test/unit/cni/result-shapes.test.ts', test: 'writeResult' },
  },
  {
    name: 'keys of other plugins are lost',
    file: 'src/cni/result-shapes.ts',
    find: 'return Object.keys(others).length === 0 ? {} : { others }',
    replace: 'return {}',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/cni/result-shapes.test.ts',
      test: 'keeps keys it does not know, at every place',
    },
  },
]
