// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** A host port has one owner on the node, and is looked up for the node’s own addresses only. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a port of one address and of any are no conflict',
    file: 'src/features/host-ports.ts',
    find: "(addresses[0] === addresses[1] || addresses.includes('any'))",
    replace: 'addresses[0] === addresses[1]',
    caughtBy: { project: 'unit', file: 'test/unit/features/host-port-elements.test.ts', test: 'isPortConflict' },
  },
  {
    name: 'a mapping of 0.0.0.0 is one of that address',
    file: 'src/features/host-ports.ts',
    find: 'const isAny = hostIp === undefined || isUnspecified(hostIp)',
    replace: 'const isAny = hostIp === undefined',
    caughtBy: { project: 'unit', file: 'test/unit/features/host-ports.test.ts', test: 'IPv4 everywhere for 0.0.0.0' },
  },
]
