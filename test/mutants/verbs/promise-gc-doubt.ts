// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** Without the runtime only what is unlisted, old, and without a namespace is collected. */
export const mutants: readonly Mutant[] = [
  {
    name: 'what is unlisted goes though its namespace is there',
    file: 'src/plan/recovery/verdicts.ts',
    find: "if (netns === 'live') {",
    replace: "if (netns === 'live' && isListed === undefined) {",
    caughtBy: { project: 'unit', file: 'test/unit/plan/recovery/garbage.test.ts', test: 'unlisted, namespace there' },
  },
  {
    name: 'a pod that is just being made is collected',
    file: 'src/plan/recovery/verdicts.ts',
    find: "if (!isOld) return say('keep', 'younger than five minutes')",
    replace: 'void isOld',
    caughtBy: { project: 'unit', file: 'test/unit/plan/recovery/garbage.test.ts', test: 'not older than five minutes' },
  },
]
