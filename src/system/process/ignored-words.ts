// SPDX-License-Identifier: Apache-2.0
// A person with CNI_COMMAND in the shell's environment: `trestle lint FILE` is a runtime's call then, and waits for a
// configuration. Asked only where a call waits or fails: runtimes give no words.

import { printable } from '../../cni/model/error.ts'

let isReported = false

/** Says once on stderr that the words of the command line are not looked at, where standard input is a terminal. */
export function reportIgnoredWords(): void {
  const words = process.argv.slice(2)
  // Not imported above: the start-up snapshot goes without it.
  if (isReported || words.length === 0 || !process.getBuiltinModule('node:tty').isatty(0)) return
  isReported = true
  const notice = `trestle: CNI_COMMAND is set, so this is a runtime's call: "${words.join(' ')}" is ignored`
  process.stderr.write(printable(`${notice}, the configuration is read from standard input; unset CNI_COMMAND\n`))
}
