// SPDX-License-Identifier: Apache-2.0
// A process that takes locks when told to, one JSON job a line: bundled at test time and run many
// times over, so that lock.test.ts has real processes on both sides of a lock.

import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CniError } from '../../../src/cni/errors.ts'
import { nowMs } from '../../../src/process/clock.ts'
import { withLock } from '../../../src/state/lock.ts'

/** `counter`: a file to add 1 to, by reading and writing, which loses counts unless the lock excludes. Without: hold for ever. */
export interface Job {
  readonly file: string
  readonly waitMs: number
  readonly counter?: string
}

export type Answer =
  | { readonly is: 'held' | 'counted' }
  | { readonly is: 'refused'; readonly code: number; readonly message: string }

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await run(JSON.parse(line) as Job)
  writeAnswer(answer)
}

async function run({ file, waitMs, counter }: Job): Promise<Answer> {
  const purpose = counter === undefined ? 'hold it' : 'count'
  try {
    return await withLock({ file, purpose, deadline: { endsAtMs: nowMs() + waitMs } }, async () => {
      if (counter === undefined) return await holdForEver()
      const seen = Number(readFileSync(counter, 'utf8'))
      await sleep(0.2)
      // A process that is killed as it writes must not leave an empty file.
      writeFileSync(`${counter}.${process.pid}`, String(seen + 1))
      renameSync(`${counter}.${process.pid}`, counter)
      return { is: 'counted' }
    })
  } catch (error) {
    const { code, message } = error as CniError
    return { is: 'refused', code, message }
  }
}

async function holdForEver(): Promise<Answer> {
  writeAnswer({ is: 'held' })
  return await new Promise(() => setInterval(() => undefined, 1000))
}

function writeAnswer(answer: Answer): void {
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
