// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

const file = 'test/netns/ports/port-conditions.test.ts'

/** What leaves chains of port conditions behind, or fails a DEL over them, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a chain stays when its last pod goes',
    file: 'src/commands/teardown/removal-port.ts',
    find: '  return chains.filter((chain) => !isUsed(chain))\n',
    replace: '  return chains.filter(isUsed)\n',
    caughtBy: { project: 'netns', file, test: 'that go with the last pod of theirs, and leave the table as it was' },
  },
  {
    name: 'a chain stays where the record of its pod is lost',
    file: 'src/plan/order/teardown.ts',
    find: 'chainRemovals([...present.unused, ...chainsBehind(elements)])',
    replace: 'chainRemovals(present.unused)',
    caughtBy: { project: 'netns', file, test: 'that go where the record is lost' },
  },
]
