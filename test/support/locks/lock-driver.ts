// SPDX-License-Identifier: Apache-2.0
// A process that takes locks when told to, one JSON job a line: bundled at test time and run many
// times over, so that lock.test.ts has real processes on both sides of a lock.

import { readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CniError } from '../../../src-before/cni/error.ts'
import { ownProcessIdentity } from '../../../src-before/system/process/process-identity.ts'
import { withLock } from '../../../src-before/system/store/lock.ts'

/**
 * `counter`: a file to add 1 to, by reading and writing, which loses counts unless the lock excludes. Without: hold for
 * ever. `holdMs`: how long the lock is kept for it.
 */
export interface Job {
  readonly file: string
  readonly waitMs: number
  readonly counter?: string
  readonly holdMs?: number
}

/** What became of a job. `waitedMs`: until the lock was had. */
export type Answer =
  | { readonly is: 'held' | 'counted'; readonly waitedMs?: number }
  | { readonly is: 'refused'; readonly code: number; readonly message: string }

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await run(JSON.parse(line) as Job)
  writeAnswer(answer)
}

async function run({ file, waitMs, counter, holdMs = 0.2 }: Job): Promise<Answer> {
  const from = performance.now()
  const purpose = counter === undefined ? 'hold it' : 'count'
  try {
    return await withLock({ file, purpose, owner: ownProcessIdentity(), waitMs }, async () => {
      if (counter === undefined) return await holdForEver()
      const waitedMs = performance.now() - from
      const seen = Number(readFileSync(counter, 'utf8'))
      await sleep(holdMs)
      writeFileSync(counter, String(seen + 1))
      return { is: 'counted', waitedMs }
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
