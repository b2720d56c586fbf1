// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** An ADD that finds rules or bridge gone brings back what every live pod needs. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a flushed rule is not missed',
    file: 'src/model/tables.ts',
    find: 'rules.every(({ comment }) => listed.comments.has(comment))',
    replace: 'rules.length > 0',
    caughtBy: { project: 'netns', file: 'test/netns/firewall/flushed.test.ts', test: 'brings six pods back when' },
  },
  {
    name: 'a bridge that is made anew gets no port back',
    file: 'src/drivers/bridge.ts',
    find: 'if (host === undefined || port === undefined) return []\n  const { bridge: master } = port',
    replace:
      "if (host === undefined || port === undefined || host.name !== '') return []\n  const { bridge: master } = port",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/processes/races-network.test.ts',
      test: 'a bridge is made anew though a pod of it goes meanwhile',
    },
  },
]
