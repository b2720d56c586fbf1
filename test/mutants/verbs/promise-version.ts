// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** VERSION echoes the caller’s version, where it is supported, whatever stdin is. */
export const mutants: readonly Mutant[] = [
  {
    name: 'VERSION answers in its own version',
    file: 'src/commands/call/dispatch.ts',
    find: 'cniVersion = readVersionRequest(await input.stdin())',
    replace: 'readVersionRequest(await input.stdin())',
    caughtBy: { project: 'unit', file: 'test/unit/commands/dispatch.test.ts', test: 'VERSION with stdin %s' },
  },
  {
    name: 'VERSION fails where stdin is no JSON',
    file: 'src/commands/call/dispatch.ts',
    find: 'if (cause instanceof CniError && cause.code === CniCode.interrupted) throw cause',
    replace: 'throw cause',
    caughtBy: { project: 'unit', file: 'test/unit/commands/dispatch.test.ts', test: 'VERSION with stdin %s' },
  },
]
