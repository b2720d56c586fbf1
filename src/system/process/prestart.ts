// SPDX-License-Identifier: Apache-2.0
// Starting tools before their input is known. Loading `ip`, or `nsenter` and `ip`, takes longer than most
// batches, so they load beside our own work, and the pod's beside the host's.

import type { Command, Output, Run } from './runner.ts'

/** Processes that wait for their input. */
export interface Prestarted {
  /** Like the runner they were started with; the first call of each program gets the waiting process. */
  readonly run: Run
  /** Starts more of them, while others keep us waiting. */
  readonly start: (commands: readonly Command[]) => void
  /**
   * Ends what nobody took: it reads an end of input. Resolves when they are gone; never rejects. Also for when links
   * were taken away meanwhile: tc of iproute2 7 learns the links' numbers when it starts, not when it reads.
   */
  readonly discard: () => Promise<void>
}

interface Waiting {
  readonly command: Command
  readonly give: (stdin: string) => void
  readonly output: Promise<Output>
}

/** Starts `commands` without their input. For programs that do nothing on empty input: `ip -batch -` is one. */
export function prestart(run: Run, commands: readonly Command[]): Prestarted {
  const waiting = new Set(commands.map((command) => startOne(run, command)))
  return {
    run: (asked) => {
      const found = [...waiting].find(({ command }) => isSameProgram(asked, command))
      if (found === undefined || typeof asked.stdin !== 'string') return run(asked)
      waiting.delete(found)
      found.give(asked.stdin)
      return found.output
    },
    start: (more) => {
      for (const command of more) waiting.add(startOne(run, command))
    },
    discard: async () => {
      const unused = [...waiting]
      waiting.clear()
      for (const { give } of unused) give('')
      await Promise.allSettled(unused.map(({ output }) => output))
    },
  }
}

function startOne(run: Run, command: Command): Waiting {
  // Where it could not be started nobody takes it.
  let give = (_: string): void => undefined
  const output = run({
    ...command,
    stdin: (giveIt) => {
      give = giveIt
    },
  })
  // A failure is told to whoever takes the process.
  output.catch(() => undefined)
  // Written at once, not in a microtask: other tools are started in the same turn, and each fork holds us up.
  return { command, give: (text) => give(text), output }
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
