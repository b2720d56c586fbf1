// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What takes ::1 from the node, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'packets to ::1 are looked up among the host ports',
    file: 'src/model/tables.ts',
    find: "rulesOf('loopback6', 'gate4',",
    replace: "rulesOf('gate4',",
    caughtBy: { project: 'netns', file: 'test/netns/ports/host-ports.test.ts', test: 'leave ::1 to the node' },
  },
  {
    name: 'a process of the node on ::1 keeps a pod from its host port',
    file: 'src/features/listening.ts',
    find: " || listener.address === '::1'",
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/ports/on-listening.test.ts',
      test: 'on ::1, which no host port takes',
    },
  },
]
