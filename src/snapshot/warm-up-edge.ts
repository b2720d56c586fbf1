// SPDX-License-Identifier: Apache-2.0
// A call from where the runtime starts it to its exit, with a process that is none: what of main.ts has run is in the
// start-up snapshot with its bytecode.

import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a call has of its process: environment and signals, descriptors, and how it ends. */
export interface Edge {
  readonly process: Pick<NodeJS.Process, 'env' | 'argv'> & {
    on(event: string, listener: (reason: unknown) => void): unknown
  }
  readonly stdin: number
  readonly stdout: number
  readonly exit: (code: number) => unknown
}

/** Runs VERSION with a file as standard input and another as output. Resolves to what went wrong. */
export async function warmUpEdge(run: (edge: Edge) => unknown): Promise<readonly string[]> {
  const directory = mkdtempSync(join(tmpdir(), 'trestle-warm-up-'))
  const input = join(directory, 'stdin')
  writeFileSync(input, '{"cniVersion":"1.1.0"}')
  const [stdin, stdout] = [openSync(input, 'r'), openSync('/dev/null', 'w')]
  try {
    const process = { env: { CNI_COMMAND: 'VERSION' }, argv: [], on: () => undefined }
    const code = await new Promise((exit) => run({ process, stdin, stdout, exit }))
    return code === 0 ? [] : [`VERSION at the edge: ${String(code)}`]
  } finally {
    closeSync(stdin)
    closeSync(stdout)
    rmSync(directory, { recursive: true, force: true })
  }
}
