// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What lets a pod's author set sysctls and link settings, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'args.cni switches tuning on where nobody configured it',
    file: 'src/features/tuning.ts',
    find: '  const { tuning } = raw\n  if (tuning === undefined) return undefined\n',
    replace:
      '  const { tuning } = raw\n  if (tuning === undefined) return raw.args?.cni && readTuning({ ...raw, tuning: {} }, invocation, stdin)\n',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/chained/args-cni.test.ts',
      test: 'changes no sysctl and no link setting without a tuning key',
    },
  },
  {
    name: 'an empty tuning key does not switch args.cni on',
    file: 'src/features/tuning.ts',
    find: '  const { tuning } = raw\n  if (tuning === undefined) return undefined\n',
    replace:
      '  const { tuning } = raw\n  if (tuning === undefined || Object.keys(tuning).length === 0) return undefined\n',
    caughtBy: { project: 'unit', file: 'test/unit/config/config-features.test.ts', test: 'tuning' },
  },
]
