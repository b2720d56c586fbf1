// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

const file = 'test/netns/teardown/early-answer.test.ts'

/** What makes DEL answer too early, or too late, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'DEL waits for the exit of ip',
    file: 'src/system/kernel/execute.ts',
    find: '() => evidence.links.every(isLinkGone)',
    replace: '() => evidence.links.length === 0 && isLinkGone("")',
    caughtBy: { project: 'netns', file, test: 'waits for nothing that ends for no signal' },
  },
  {
    name: 'DEL waits for the exit of nft',
    file: 'src/plan/order/stage.ts',
    find: "return isOfElements && ops.length > 0 ? { kind: 'generation' }",
    replace: "return isOfElements && ops.length > 99 ? { kind: 'generation' }",
    caughtBy: { project: 'netns', file, test: 'waits for nothing that ends for no signal' },
  },
  {
    name: 'DEL answers before ip has done anything',
    file: 'src/system/kernel/execute.ts',
    find: '() => evidence.links.every(isLinkGone)',
    replace: '() => !evidence.links.every(isLinkGone)',
    caughtBy: { project: 'netns', file, test: 'removes links and rules before it answers' },
  },
  {
    name: 'nft reads the rules of others before it tells its generation',
    file: 'src/tools/batches.ts',
    find: 'stdin: `${batch.stdin}${generation.line}`, evidence',
    replace: 'stdin: `${batch.stdin}`, evidence',
    caughtBy: { project: 'netns', file, test: 'does not make nft read the rules of others' },
  },
  {
    name: 'a commit is believed before its line is whole',
    file: 'src/tools/nft.ts',
    find: '\\(.*\\)\\n/m',
    replace: '/m',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/tools/read-nft.test.ts',
      test: 'reads the generation that nft tells, to the end of its line',
    },
  },
  {
    name: 'other work in a batch of removals is cut short',
    file: 'src/tools/batches.ts',
    find: 'isRemoval && links.length > 0 ?',
    replace: '(isRemoval || links.length > 0) && links.length > 0 ?',
    caughtBy: {
      project: 'unit',
      file: 'test/unit/tools/evidence.test.ts',
      test: 'is nothing where the batch does more than remove',
    },
  },
]
