// SPDX-License-Identifier: Apache-2.0
// Starting a tool before its input is known. Loading `nsenter` and `ip` takes longer than most batches, so the
// pod's process loads beside the host's batch and waits for its input: 2-3 ms less for an ADD.

import type { Command, Run } from './runner.ts'

/** A process that waits for its input. */
export interface Ahead {
  /** Like the runner it was started with; the first call of the same program gets the waiting process. */
  readonly run: Run
  /** Ends the process when nobody took it: it reads an end of input. Never throws. */
  readonly discard: () => Promise<void>
}

/** Starts `command` without its input. A program that does nothing on empty input only: `ip -batch -` is one. */
export function startAhead(run: Run, command: Command): Ahead {
  const { promise: stdin, resolve: give } = Promise.withResolvers<string>()
  const output = run({ ...command, stdin })
  // Its failure is told to whoever takes it.
  const settled = output.then(
    () => undefined,
    () => undefined,
  )
  let isTaken = false
  return {
    run: (asked) => {
      if (isTaken || typeof asked.stdin !== 'string' || !isSameProgram(asked, command)) return run(asked)
      isTaken = true
      give(asked.stdin)
      return output
    },
    discard: () => {
      if (isTaken) return settled
      isTaken = true
      give('')
      return settled
    },
  }
}

function isSameProgram(a: Command, b: Command): boolean {
  return (
    a.file === b.file &&
    a.netnsFd === b.netnsFd &&
    a.env === b.env &&
    a.args.length === b.args.length &&
    a.args.every((word, at) => word === b.args[at])
  )
}
