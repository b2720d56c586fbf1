// SPDX-License-Identifier: Apache-2.0
// The lock between processes: a dead holder's is taken over by one waiter at a time, a live holder's
// never. Exclusion is shown by a counter that loses counts whenever two hold the lock at once.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { livingStamp } from '../../support/faults/process-identities.ts'
import { haveStrace, noStrace } from '../../support/faults/strace.ts'
import { type LockProcess, openLockProcesses } from '../../support/locks/lock-processes.ts'

const minutes = 60_000
const waiterCount = 50
const rounds = 4

/** The longest wait for one lock. */
const callWaitsMs = 10_000

/** This process, as it writes itself down in a lock. */
const ownStamp = livingStamp

describe('the lock', () => {
  let processes: ReturnType<typeof openLockProcesses>
  let waiters: LockProcess[]
  let used = 0
  beforeAll(() => {
    processes = openLockProcesses()
    waiters = Array.from({ length: waiterCount }, () => processes.start())
  })
  afterAll(() => processes.close())

  const newLock = () => {
    used += 1
    const [file, counter] = [`${processes.directory}/lock${used}`, `${processes.directory}/counter${used}`]
    writeFileSync(counter, '0')
    return { file, counter, waitMs: 30_000 }
  }
  const holderOf = async (file: string) => {
    const holder = processes.start()
    expect(await holder.ask({ file, waitMs: 1000 })).toEqual({ is: 'held' })
    return holder
  }
  const leftOf = (file: string) =>
    readdirSync(processes.directory).filter((name) => `${processes.directory}/${name}`.startsWith(`${file}`))

  it(
    `lets ${waiterCount} waiters in one by one after their holder was killed, ${rounds} times`,
    async () => {
      for (let round = 0; round < rounds; round++) {
        const job = newLock()
        const holder = await holderOf(job.file)
        const answers = Promise.all(waiters.map((waiter) => waiter.ask(job)))
        await holder.kill()
        expect((await answers).filter((answer) => answer?.is !== 'counted')).toEqual([])
        expect(readFileSync(job.counter, 'utf8')).toBe(String(waiterCount))
        expect(leftOf(job.file)).toEqual([])
      }
    },
    2 * minutes,
  )

  it(
    'lets everyone in after several waiters were killed too, whatever they were doing',
    async () => {
      for (let round = 0; round < 3; round++) {
        const job = newLock()
        const [holder, victims] = [await holderOf(job.file), Array.from({ length: 4 }, () => processes.start())]
        for (const victim of victims) void victim.ask(job)
        const answers = Promise.all(waiters.slice(0, 10).map((waiter) => waiter.ask(job)))
        await holder.kill()
        await Promise.all(victims.map((victim) => victim.kill()))
        expect((await answers).filter((answer) => answer?.is !== 'counted')).toEqual([])
        expect(Number(readFileSync(job.counter, 'utf8'))).toBeGreaterThanOrEqual(10)
      }
    },
    minutes,
  )

  it(
    'lets everyone in after the one that replaced a dead holder was killed at any step of it',
    async (test) => {
      if (!haveStrace()) return test.skip(noStrace)
      for (const call of ['link,linkat', 'rename,renameat2', 'unlink,unlinkat']) {
        for (let when = 1; when <= 3; when++) {
          const job = newLock()
          await (await holderOf(job.file)).kill()
          const breaker = processes.start([
            'strace',
            '-f',
            '-o',
            '/dev/null',
            `--inject=${call}:signal=KILL:when=${when}`,
          ])
          await breaker.ask(job)
          await breaker.kill()
          const base = Number(readFileSync(job.counter, 'utf8'))
          const answers = await Promise.all(waiters.slice(0, 10).map((waiter) => waiter.ask(job)))
          expect(answers.filter((answer) => answer?.is !== 'counted')).toEqual([])
          expect(readFileSync(job.counter, 'utf8'), `${call} number ${when}`).toBe(String(base + 10))
        }
      }
    },
    minutes,
  )

  it('waits for a live holder no longer than asked, and names it', async () => {
    const { file, counter } = newLock()
    const holder = await holderOf(file)
    const from = performance.now()
    const answer = await waiters[0]?.ask({ file, counter, waitMs: 300 })
    expect(performance.now() - from).toBeLessThan(callWaitsMs)
    expect(answer).toMatchObject({ is: 'refused', code: 11 })
    expect(answer).toHaveProperty(
      'message',
      expect.stringMatching(new RegExp(`held by process ${holder.pid} \\(hold it\\)`)),
    )
    expect(readFileSync(counter, 'utf8')).toBe('0')
  })

  it.each([
    ['of text that is no holder', () => 'not json'],
    ['that is empty', () => ''],
    ['of an earlier boot', () => JSON.stringify({ ...ownStamp(), bootId: 'of-an-earlier-boot', purpose: 'old' })],
    ['of a process whose pid is used again', () => JSON.stringify({ ...ownStamp(), startTime: '1', purpose: 'old' })],
  ])('is taken at once from a file %s', async (_, text) => {
    const job = { ...newLock(), waitMs: callWaitsMs }
    writeFileSync(job.file, text())
    const answers = await Promise.all(waiters.slice(0, 10).map((waiter) => waiter.ask(job)))
    expect(answers.filter((answer) => answer?.is !== 'counted')).toEqual([])
    expect(readFileSync(job.counter, 'utf8')).toBe('10')
  })

  it('is not taken from a process of another pid namespace, of which nothing can be told', async () => {
    const { file, counter } = newLock()
    writeFileSync(file, JSON.stringify({ ...ownStamp(), pid: 4_000_000, pidNamespace: 'pid:[1]', purpose: 'far away' }))
    expect(await waiters[0]?.ask({ file, counter, waitMs: 200 })).toMatchObject({ is: 'refused', code: 11 })
  })
})
