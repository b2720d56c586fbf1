// SPDX-License-Identifier: Apache-2.0
import type { Mutant } from '../mutant.ts'

/** What DEL cannot undo stays in the record, with address and port, until a later call settles it. */
export const mutants: readonly Mutant[] = [
  {
    name: 'the address is given back though something is left',
    file: 'src/commands/teardown/remove-attachment.ts',
    find: 'if (hasRecord) port.writePending(failures.map(({ message }) => message))\n    return',
    replace: 'if (hasRecord) await port.freeAddresses(undefined, 0)\n    return',
    caughtBy: {
      project: 'netns',
      file: 'test/netns/teardown/faults-pending.test.ts',
      test: 'that could not run its tools withholds address and port until a later call settles it',
    },
  },
  {
    name: 'no later call settles a pending cleanup',
    file: 'src/commands/teardown/attachments.ts',
    find: "!== 'elsewhere' && existsSync(file)",
    replace: "!== 'elsewhere' && existsSync(file) && record.pendingCleanup === undefined",
    caughtBy: {
      project: 'netns',
      file: 'test/netns/teardown/faults-pending.test.ts',
      test: 'that could not run its tools withholds address and port until a later call settles it',
    },
  },
]
