// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What lets a call tear down what another host network namespace has, or keeps it for ever, and the test that sees it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a call from another host network namespace takes what it finds for its own',
    file: 'src/system/kernel/host-namespace.ts',
    find: "if (writer.netNamespace === undefined || writer.netNamespace === self.netNamespace) return 'here'",
    replace: "if (self.netNamespace !== undefined) return 'here'",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/host-namespace.test.ts',
      test: 'changes nothing of the attachment and says so',
    },
  },
  {
    name: 'what cannot be seen from a pid namespace counts as over',
    file: 'src/system/kernel/host-namespace.ts',
    find: "  if (!seesProcessesOf(writer, self)) return 'elsewhere'\n",
    replace: '',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/host-namespace.test.ts',
      test: 'from a pid namespace where the other host cannot be seen',
    },
  },
  {
    name: 'a host network namespace that has ended keeps its attachments for ever',
    file: 'src/system/kernel/host-namespace.ts',
    find: "inhabitantOf(writer.netNamespace) === undefined ? 'ended' : 'elsewhere'",
    replace: "'elsewhere'",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/state/host-namespace.test.ts',
      test: 'a host network namespace that no process is in any more is over',
    },
  },
]
