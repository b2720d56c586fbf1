// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** An ADD that fails, or whose result nobody reads, leaves the machine as it found it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'an ADD that failed leaves what it made',
    file: 'src/commands/verbs/add.ts',
    find: '...(await teardown(contextOfTeardown(context), files, latest).catch((failure: Error) => [failure])),',
    replace: '...((contextOfTeardown(context) && teardown && files && latest ? [] : []) as Error[]),',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/chained/settings.test.ts',
      test: 'that only the node has are refused',
    },
  },
  {
    name: 'a result that nobody reads is no reason for a DEL',
    file: 'src/commands/call/dispatch.ts',
    find: "...(invocation.verb === 'ADD' ? { teardown:",
    replace: "...(invocation.verb === 'CHECK' ? { teardown:",
    caughtBy: {
      project: 'unit',
      file: 'test/unit/commands/dispatch.test.ts',
      test: 'an ADD whose result nobody reads is taken back by DEL, no other call',
    },
  },
]
