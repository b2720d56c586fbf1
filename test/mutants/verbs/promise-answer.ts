// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** Every call answers with one JSON document or nothing, and a failure has a code, on one line, in the version of the caller. */
export const mutants: readonly Mutant[] = [
  {
    name: 'an error is of our version, not of the caller’s',
    file: 'src/commands/call/dispatch.ts',
    find: 'stdin === undefined ? currentVersion : callerVersion(stdin)',
    replace: 'currentVersion',
    caughtBy: { project: 'unit', file: 'test/unit/commands/dispatch.test.ts', test: 'control characters' },
  },
  {
    name: 'a message has line breaks as they came',
    file: 'src/cni/error.ts',
    find: 'return `${oneLine(message)} [${',
    replace: 'return `${message} [${',
    caughtBy: { project: 'unit', file: 'test/unit/commands/dispatch.test.ts', test: 'control characters' },
  },
  {
    name: 'a full disk is a defect of ours, 999',
    file: 'src/cni/error.ts',
    find: "return code === 'ENOSPC' || code === 'EDQUOT'",
    replace: "return code === 'EDQUOT'",
    caughtBy: {
      project: 'unit',
      file: 'test/unit/commands/dispatch.test.ts',
      test: 'a full disk, told by write(2), which has no path',
    },
  },
]
