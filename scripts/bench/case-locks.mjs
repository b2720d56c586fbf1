// SPDX-License-Identifier: Apache-2.0
// Fifty processes that want one lock at the same time: how long each waits, and whether one of them starves.
import { writeFileSync } from 'node:fs'
import { openLockProcesses } from '../../test/support/locks/lock-processes.ts'
import { quantile } from './statistics.mjs'
import { row } from './table.mjs'

const waiters = 50
const holdMs = 5
/** The longest wait of a call (src/commands/call/locks.ts), and what is promised of a storm's calls. */
const waitMs = 10_000
const longestMs = 5000

/** Rows of the lock. */
export async function locks({ rounds }) {
  const processes = openLockProcesses()
  try {
    const all = Array.from({ length: waiters }, () => processes.start())
    const waits = []
    for (let round = 0; round < rounds; round++) {
      const [file, counter] = [`${processes.directory}/lock${round}`, `${processes.directory}/counter${round}`]
      writeFileSync(counter, '0')
      const answers = await Promise.all(all.map((each) => each.ask({ file, counter, waitMs, holdMs })))
      const refused = answers.find((answer) => answer?.is !== 'counted')
      if (refused) throw new Error(`a waiter was refused: ${refused.message}`)
      waits.push(...answers.map((answer) => answer.waitedMs))
    }
    const at = (fraction) => `${quantile(waits, fraction).toFixed(0)} ms`
    const what = `${waiters} waiters of one lock, each holds it ${holdMs} ms: longest wait`
    const value = Math.max(...waits)
    return {
      rows: [row({ what, limit: longestMs, value, unit: 'ms', digits: 0, detail: `p50 ${at(0.5)}, p99 ${at(0.99)}` })],
      notes: [`${waits.length} waits: p50 ${at(0.5)}, p99 ${at(0.99)}, longest ${value.toFixed(0)} ms`],
    }
  } finally {
    await processes.close()
  }
}
