// SPDX-License-Identifier: Apache-2.0
// 100,000 calls that are nearly right: one JSON document or nothing, a code of ours and never 999, no prototype touched,
// and of those that are accepted, batches of known words only. FUZZ_SEED repeats a run, FUZZ_CALLS changes its length.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkCall } from '../support/edge-check.ts'
import { mutatedCalls, plainCalls } from '../support/fuzz/mutated-calls.ts'

const seed = Number(process.env['FUZZ_SEED'] ?? Date.now() % 2 ** 31)
const calls = Number(process.env['FUZZ_CALLS'] ?? 100_000)

describe('the edge, and what is planned behind it', () => {
  it.each(plainCalls())('takes a real call: $name', async (call) => {
    expect(await checkCall(call)).not.toHaveProperty('problem')
  })

  it(`answers ${calls} mutated calls with one foreseen document (FUZZ_SEED=${seed})`, async () => {
    const counts = new Map<string, number>()
    const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1)
    const property = fc.asyncProperty(mutatedCalls(3), async (call) => {
      const { problem, planned, code } = await checkCall(call)
      count(planned ? 'planned' : code === undefined ? 'accepted' : `code ${code}`)
      if (problem !== undefined) throw new Error(problem)
    })
    await fc.assert(property, { numRuns: calls, seed })
    console.log(`seed ${seed}:`, Object.fromEntries([...counts].sort()))
    // A fuzzer whose calls all stop at the first check would show nothing.
    expect(counts.get('planned')).toBeGreaterThan(calls / 20)
    expect(counts.get('code 7')).toBeGreaterThan(calls / 20)
  }, 900_000)
})
