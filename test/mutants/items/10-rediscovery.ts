// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What loses addresses for good after damage, or gives those of live pods away, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a DEL that comes again frees what another pod has by now',
    file: 'src/commands/recover/unrecorded.ts',
    find: 'const isCertain = hasUnreadable(files, key)\n',
    replace: 'const isCertain = true\n',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-truncated.test.ts',
      test: 'once: a DEL that comes again frees nothing of the pod that has it by now',
    },
  },
  {
    name: 'trestle gc collects what live pods without a record have',
    file: 'src/commands/recover/strays.ts',
    find: '        alive.has(textOf(reservation)) ||\n',
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-truncated.test.ts',
      test: 'is collected by trestle gc, which reports what a live pod has',
    },
  },
  {
    name: 'an ADD with a full pool leaves what nobody can have',
    file: 'src/commands/verbs/add.ts',
    find: "    await reclaimOrphans(context, { network: key.network, isMain: key.role === 'main' })\n",
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-truncated.test.ts',
      test: 'is collected by an ADD that finds the pool full',
    },
  },
]
