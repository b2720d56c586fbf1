// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { nowMs } from '../../../src-before/system/process/clock.ts'
import { inFiles, prestart, runnerUntil } from '../../../src-before/system/process/runner.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync('/dev/shm/trestle-prestart-')
  process.env['TRESTLE_STATE_DIR'] = directory
})
afterEach(() => {
  delete process.env['TRESTLE_STATE_DIR']
  rmSync(directory, { recursive: true })
})

/** Copies its input to the file `copy`, and makes `end` when that has ended. */
const copying = () => ({ file: 'sh', args: ['-c', 'cat >"$0/copy" && : >"$0/end"', directory] })

/** Stands still until there is the file `end`, as a fork stands still: no turn of the loop comes between. */
function standStill(): boolean {
  const [end, until] = [`${directory}/end`, nowMs() + 20_000]
  while (!existsSync(end) && nowMs() < until) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
  return existsSync(end)
}

describe('a process that is started before its input is known', () => {
  it.each(['link set dev lo up\n', ''])('has all of its input, and the end, at once: %j', async (stdin) => {
    const run = inFiles(runnerUntil({ endsAtMs: nowMs() + 60_000 }))
    const ended = prestart(run, [copying()]).run({ ...copying(), stdin })
    expect(standStill()).toBe(true)
    expect(readFileSync(`${directory}/copy`, 'utf8')).toBe(stdin)
    expect(await ended).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  it('has all of an input that is larger than a pipe', async () => {
    const run = inFiles(runnerUntil({ endsAtMs: nowMs() + 60_000 }))
    const stdin = 'route add 192.0.2.0/24 dev eth0\n'.repeat(100_000)
    expect(await prestart(run, [copying()]).run({ ...copying(), stdin })).toMatchObject({ code: 0 })
    expect(readFileSync(`${directory}/copy`, 'utf8')).toBe(stdin)
  })
})
