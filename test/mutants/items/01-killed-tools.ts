// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What lets a killed call's tools go on, or ends what is not ours, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'DEL does not wait for what the killed ADD of its own record has at work',
    file: 'src/commands/teardown/attachments.ts',
    find: '      await endProcessesOf(now.writer, context.waits)\n      if (isCutShort)',
    replace: '      if (isCutShort)',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/processes/killed-tools.test.ts',
      test: 'its IPAM plugin is waited for, then sent DEL, whose configuration %s',
    },
  },
  {
    name: 'processes of other users that have the descriptor are ended, too',
    file: 'src/system/process/call-processes.ts',
    find: 'return hasOpen(pid, file) && isRoots(pid) && ',
    replace: 'return hasOpen(pid, file) && ',
    caughtBy: { project: 'netns', file: 'test/netns/processes/killed-tools.test.ts', test: 'other processes live on' },
  },
  {
    name: 'whoever takes over the lock of a killed call does not end what it had started',
    file: 'src/system/store/lock.ts',
    find: '    await endProcessesOfHolder(request)\n    if (isDirectory',
    replace: '    if (isDirectory',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/processes/killed-tools.test.ts',
      test: 'whoever takes over its lock ends them first',
    },
  },
  {
    name: 'tools do not inherit the descriptor',
    file: 'src/system/process/runner.ts',
    find: '[netnsFd, starting?.fd]',
    replace: '[netnsFd]',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/processes/killed-tools.test.ts',
      test: 'other processes live on: of the same name',
    },
  },
  {
    name: 'rules are collected although a pod without a record may use them',
    file: 'src/plan/recovery/verdicts.ts',
    find: '    return facts.mayBeOfUnknownPod\n',
    replace: '    return facts.isListed\n',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/plan/recovery/kernel-orphans.test.ts',
      test: 'rules where a pod may have lost its record',
    },
  },
  {
    name: 'an ifb is made without the alias that says whose it is',
    file: 'src/features/bandwidth.ts',
    find: '    ...(alias === undefined\n',
    replace: '    ...(alias !== undefined\n',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/features/bandwidth.test.ts',
      test: 'make the ifb only where it is used',
    },
  },
]
