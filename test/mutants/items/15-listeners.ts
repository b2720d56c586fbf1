// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

const caughtBy = {
  project: 'netns',
  file: 'test/netns/ports/on-listening.test.ts',
  test: 'is beside the last tool, when that is at work',
} as const

/** What makes an ADD wait for the list of sockets, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'the look is beside an earlier tool, so the next one waits for it',
    file: 'src/plan/order/stages.ts',
    find: "beside: 'flows' }",
    replace: "beside: 'pod' }",
    caughtBy,
  },
  {
    name: 'the look comes before a tool that was started ahead has the end of its input',
    file: 'src/system/process/runner.ts',
    find: 'stdin.destroy()',
    replace: 'stdin.end()',
    caughtBy,
  },
]
