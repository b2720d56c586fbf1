// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** DEL needs nothing but container id and interface name, and comes again. */
export const mutants: readonly Mutant[] = [
  {
    name: 'without a record DEL does nothing',
    file: 'src/commands/verbs/del.ts',
    find: 'if (!isCertain) await removeWithoutRecord(',
    replace: 'if (isCertain) await removeWithoutRecord(',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/teardown/del-matrix.test.ts',
      test: 'works where the state directory was removed while the pod lives',
    },
  },
  {
    name: 'DEL reads the whole configuration, and fails where a part of it is wrong',
    file: 'src/commands/call/dispatch.ts',
    find: 'await handlers.del(invocation, readDelConfig(stdin, invocation.ownTypes))\n    return',
    replace:
      'await handlers.del(invocation, (readConfig(stdin, invocation), readDelConfig(stdin, invocation.ownTypes)))\n    return',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/commands/dispatch.test.ts',
      test: 'DEL of a good container id and name succeeds whatever else the configuration holds',
    },
  },
]
