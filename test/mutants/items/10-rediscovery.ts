// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What loses addresses for good after damage, or gives those of live pods away, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a DEL that comes again frees what another pod has by now',
    file: 'src/commands/recover/without-record.ts',
    find: 'const isCertain = hasUnreadable(files, key) || findRecords(files, key).length > 0\n',
    replace: 'const isCertain = true\n',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-truncated.test.ts',
      test: 'once: a DEL that comes again frees nothing of the pod that has it by now',
    },
  },
  {
    name: 'trestle gc collects what live pods without a record have',
    file: 'src/commands/recover/orphans.ts',
    find: '        alive.has(textOf(reservation)) ||\n',
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-truncated.test.ts',
      test: 'is collected by trestle gc, which writes the record of a live pod again',
    },
  },
  {
    name: 'an ADD with a full pool leaves what nobody can have',
    file: 'src/commands/attach/machine.ts',
    find: "    await reclaimOrphans(context, { network: key.network, isMain: key.role === 'main' })\n",
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-truncated.test.ts',
      test: 'is collected by an ADD that finds the pool full',
    },
  },
  {
    name: 'an ADD gives out the address of a live pod whose reservation was lost',
    file: 'src/commands/recover/reconcile.ts',
    find: '  return finished.length * perPod > names(files.addresses).length\n',
    replace: '  return finished.length * perPod < 0\n',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-healed.test.ts',
      test: 'a lost address reservation is made again',
    },
  },
  {
    name: 'an ADD does not see that a live pod has no record',
    file: 'src/commands/recover/reconcile.ts',
    find: '  return links >= pending.length',
    replace: '  return links > 99 + pending.length',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-healed.test.ts',
      test: 'record and reservations are made again',
    },
  },
  {
    name: 'an ADD takes the host port of a live pod whose reservation was lost, once its rules are gone',
    file: 'src/commands/attach/shared-machine.ts',
    find: '      await refuseOwnedPorts(context, spec)\n',
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/state-healed.test.ts',
      test: 'a lost reservation of a host port is made again, without rules',
    },
  },
]
