// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What keeps a DEL from ending on a full disk, or lets it end too early, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a removal waits for room to write its lock',
    file: 'src/system/store/lock.ts',
    find: 'if (request.isDispensable === undefined || !isDiskRefusal(error)) throw error',
    replace: 'if (request.isDispensable === undefined || isDiskRefusal(error)) throw error',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-gone.test.ts',
      test: 'keeps what it has: calls fail with a known code',
    },
  },
  {
    name: 'DEL ends well though something is left that it could not write down',
    file: 'src/commands/teardown/removal-port.ts',
    find: '    writePending: (texts) => write({ ...own, pendingCleanup: texts }),\n',
    replace:
      '    writePending: (texts) => {\n      try {\n        write({ ...own, pendingCleanup: texts })\n      } catch {}\n    },\n',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-gone.test.ts',
      test: 'has no room for what a DEL cannot remove: 11',
    },
  },
]
