// SPDX-License-Identifier: Apache-2.0
// Limits of a pod's traffic, measured with TCP: what runtimes really send holds from the first second
// on, in both directions, and nobody else is slowed.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { expectSilent } from '../../support/outcome.ts'
import { attach, ipamConf, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { type Throughput, type Transfer, transfer } from '../../support/traffic/transfer.ts'

const mbit = 1_000_000

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

const between = (from: Pod, to: Pod, port = 9000): Transfer => ({
  from: from.netns,
  to: to.netns,
  address: to.address,
  port,
})

/** Measured at the receiver, so below the limit by headers (4 %); 15 % above it is too much. */
const most = 1.15

/**
 * The least part of the limit in each time. TCP that loses a whole flight in a queue of 25 ms waits for its timer, 200 ms
 * at least (tcp_rto_min): on some machines each transfer does so in its first second, once or twice, and then again
 * later. A unit that is wrong by 8 or by 1000 is far below.
 */
const leastSteady: Throughput = { first: 0.5, later: 0.65, mean: 0.65 }
/** With less of the first second a burst could not be told from none. */
const leastOfBurst: Throughput = { ...leastSteady, first: 0.7 }

/** How often a transfer that carried too little is made again, through pods of its own. */
const attempts = 5

/** Bit/s that a transfer is to carry, by the part of it. */
type Expected = Partial<Throughput>

const steady = (limit: number): Expected => ({ first: limit, mean: limit })

/**
 * Each transfer by its name: no attempt carries too much from its start on, and one of them carries enough in every part
 * of it. What a stopped receiver did not read in the first second it counts in the later ones: those alone tell nothing.
 */
async function expectRates<K extends string>(
  expected: Record<K, Expected>,
  measure: (attempt: number) => Promise<Record<K, Throughput>>,
  least: Throughput = leastSteady,
): Promise<void> {
  const seen: string[] = []
  const pending = new Set(Object.keys(expected) as K[])
  for (let attempt = 1; attempt <= attempts && pending.size > 0; attempt++) {
    const measured = await measure(attempt)
    for (const name of Object.keys(expected) as K[]) {
      const parts = Object.entries(expected[name]) as [keyof Throughput, number][]
      const told = parts.map(([part, rate]) => `${part} ${(measured[name][part] / mbit).toFixed(2)} of ${rate / mbit}`)
      seen.push(`${name}: ${told.join(', ')} Mbit/s`)
      for (const [part, rate] of parts)
        if (part !== 'later') expect(measured[name][part], seen.at(-1)).toBeLessThan(rate * most)
      const isWithin = ([part, rate]: readonly [keyof Throughput, number]) =>
        measured[name][part] > rate * least[part] && measured[name][part] < rate * most
      if (parts.every(isWithin)) pending.delete(name)
    }
  }
  expect([...pending], `too little, or too much later, in every attempt:\n${seen.join('\n')}`).toEqual([])
}

/**
 * Into one pod and out of another of the same limits, at the same time. Not both with one pod: the
 * answers of one transfer would wait in the queue of the other.
 */
async function bothWays(bandwidth: object, attempt: number): Promise<{ into: Throughput; out: Throughput }> {
  const conf = netConf({ runtimeConfig: { bandwidth } })
  const [one, two] = [attach(host, conf, { id: `one${attempt}` }), attach(host, conf, { id: `two${attempt}` })]
  const other = attach(host, netConf(), { id: `other${attempt}` })
  const [into, out] = await Promise.all([transfer(between(other, one)), transfer(between(two, other))])
  return { into, out }
}

/** What runtimes send for a pod annotated with rates and no burst. */
const runtimes = [
  ['containerd', { IngressRate: 10 * mbit, IngressBurst: 4294967295, EgressRate: 6 * mbit, EgressBurst: 4294967295 }],
  ['CRI-O', { ingressRate: 10 * mbit, ingressBurst: 34359738359, egressRate: 6 * mbit, egressBurst: 34359738359 }],
] as const

describe('bandwidth', () => {
  it.each(runtimes)('as %s sends it holds from the first second on, both ways', async (_, bandwidth) => {
    const expected = { into: steady(10 * mbit), out: steady(6 * mbit) }
    await expectRates(expected, (attempt) => bothWays(bandwidth, attempt))
  })

  it('of one way leaves the other way alone', async () => {
    const attachLimited = (id: string) => attach(host, netConf({ bandwidth: { egressRate: 5 * mbit } }), { id })
    const other = attach(host, netConf(), { id: 'other' })
    await expectRates({ out: steady(5 * mbit) }, async (attempt) => ({
      out: await transfer(between(attachLimited(`limited${attempt}`), other)),
    }))
    const limited = attachLimited('limited')
    expect((await transfer(between(other, limited))).mean).toBeGreaterThan(100 * mbit)
  })

  it('with a burst of its own carries it once, in the first second', async () => {
    const bandwidth = { ingressRate: 8 * mbit, ingressBurst: 8 * mbit, egressRate: 6 * mbit, egressBurst: 12 * mbit }
    const burst = (first: number, later: number): Expected => ({ first, later, mean: (first + 2 * later) / 3 })
    const expected = { into: burst(16 * mbit, 8 * mbit), out: burst(18 * mbit, 6 * mbit) }
    await expectRates(expected, (attempt) => bothWays(bandwidth, attempt), leastOfBurst)
  })

  it('does not slow the pods beside it', async () => {
    const limited = attach(host, netConf({ bandwidth: { ingressRate: 5 * mbit, egressRate: 5 * mbit } }), { id: 'a' })
    const [b, c] = [attach(host, netConf(), { id: 'b' }), attach(host, netConf(), { id: 'c' })]
    const [slow, free] = await Promise.all([transfer(between(b, limited)), transfer(between(c, b, 9001))])
    expect(free.mean).toBeGreaterThan(100 * mbit)
    // The machine is busy with the other transfer, so only the limit itself is asked for.
    expect(slow.mean).toBeLessThan(5 * mbit * most)
  })

  it.each([
    ['a small burst', 500_000 * mbit, 8],
    ['a burst that tc cuts', 100_000 * mbit, mbit],
    ['the most that kubelet takes', 1e15, 2 ** 31 - 1],
  ])('may be beyond any link, with %s: CHECK holds, and traffic passes', async (_, rate, burst) => {
    const rates = { ingressRate: rate, ingressBurst: burst, egressRate: rate, egressBurst: burst }
    const conf = netConf({ runtimeConfig: { bandwidth: rates } })
    const [b, c] = [attach(host, conf, { id: 'b' }), attach(host, netConf(), { id: 'c' })]
    expectSilent(later(host, 'CHECK', { conf, pod: b }))
    expect((await transfer(between(c, b))).mean).toBeGreaterThan(100 * mbit)
  })

  it('holds for a routed pod, over IPv4 into it and over IPv6 out of it', async () => {
    const ranges = [[{ subnet: '10.240.0.0/24' }], [{ subnet: 'fd00:240::/64' }]]
    const bandwidth = { ingressRate: 10 * mbit, egressRate: 6 * mbit }
    const routed = ipamConf({ type: 'host-local', ranges }, { mode: 'ptp', bandwidth })
    await expectRates({ into: steady(10 * mbit), out: steady(6 * mbit) }, async (attempt) => {
      const pod = attach(host, routed, { id: `routed${attempt}` })
      const inward = { from: host.path, to: pod.netns, address: pod.address, port: 9000 }
      const outward = { from: pod.netns, to: host.path, address: 'fd00:240::1', port: 9001 }
      return { into: await transfer(inward), out: await transfer(outward) }
    })
  })
})
