// SPDX-License-Identifier: Apache-2.0
// Limits as token buckets: what is read, sizes in bytes, a bucket without a burst, what hangs on which link.

import { describe, expect, it } from 'vitest'
import type { BandwidthConf } from '../../../src/config/network-conf.ts'
import { emptySpec } from '../../../src/drivers/spec.ts'
import { bandwidth, bandwidthOf } from '../../../src/features/bandwidth.ts'
import { errorOf, id, type Json, lineOf, read } from '../call.ts'

describe('the keys', () => {
  const runtime = { bandwidth: { ingressRate: 9, ingressBurst: 5 } }
  it.each<[Json, Json | undefined]>([
    [{}, undefined],
    [{ bandwidth: { ingressRate: 0, ingressBurst: 0 } }, undefined],
    [{ bandwidth: { ingressRate: 8, ingressBurst: 9 } }, { ingressRate: 8, ingressBurst: 9 }],
    [{ bandWidth: { EgressRate: 8, egressBurst: 2147483646 } }, { egressRate: 8, egressBurst: 2147483646 }],
    [{ bandwidth: { ingressRate: 8, ingressBurst: 2147483647 } }, { ingressRate: 8 }],
    [{ runtimeConfig: runtime }, { ingressRate: 9, ingressBurst: 5 }],
    [
      { bandwidth: {}, RuntimeConfig: runtime },
      { ingressRate: 9, ingressBurst: 5 },
    ],
    [
      { bandwidth: { egressRate: 8, egressBurst: 1 }, runtimeConfig: runtime },
      { egressRate: 8, egressBurst: 1 },
    ],
    [{ bandwidth: { egressRate: 1e18 } }, { egressRate: 1e18 }],
    [{ runtimeConfig: { bandwidth: { egressRate: 0, egressBurst: 2 ** 32 - 1 } } }, undefined],
  ])('%j', (changes, expected) => {
    expect(read(changes).bandwidth).toEqual(expected)
  })

  it.each<[Json, string]>([
    [{ bandwidth: { egressBurst: 1 } }, 'bandwidth.egressRate: if burst is set, rate must also be set'],
    [
      { runtimeConfig: { bandwidth: { egressBurst: 8 } } },
      'runtimeConfig.bandwidth.egressRate: if burst is set, rate must also be set',
    ],
    [{ bandwidth: { ingressRate: 7 } }, 'bandwidth.ingressRate: 7 is not a rate that the kernel can keep'],
    [
      { bandwidth: { ingressRate: -1 } },
      'bandwidth.ingressRate: -1 is not a number of bits from 0 to 18446744073709552000',
    ],
  ])('refuses %j', (changes, message) => {
    expect(lineOf(errorOf(() => read(changes)))).toBe(`(7) ${message}`)
  })
})

const mbit = 1_000_000
const limitsOf = (conf: BandwidthConf | undefined, mtu = 1500) => bandwidthOf(conf, { id, link: 'veth1', mtu })

describe('buckets', () => {
  it('are none without limits', () => expect([limitsOf(undefined), limitsOf({})]).toEqual([undefined, undefined]))

  it.each<[string, BandwidthConf, number]>([
    ['what the rate carries in 20 ms where no burst is given', { ingressRate: 10 * mbit }, 25_000],
    ['the given burst, in bytes', { ingressRate: 10 * mbit, ingressBurst: 800_000 }, 100_000],
    ['two frames at least: of a slow rate', { ingressRate: 100_000 }, 2 * 1518],
    ['what the kernel can count: of a slow rate', { ingressRate: 8 }, 270],
    ['what the kernel can count: of a large burst', { ingressRate: mbit, ingressBurst: 1000 * mbit }, 33_750_000],
    ['3 us at least: tc cuts to whole ones', { ingressRate: 100_000 * mbit, ingressBurst: 8 }, 37_500],
    ['32 bits at most', { ingressRate: 1e14 }, 2 ** 32 - 1],
  ])('hold %s', (_, conf, burstBytes) => {
    expect(limitsOf(conf)?.ingress).toEqual({ rateBits: conf.ingressRate, burstBytes })
  })

  it('of a rate that no link has are those of 10^14', () => {
    expect(limitsOf({ ingressRate: 1e15 })?.ingress?.rateBits).toBe(1e14)
  })

  it('count frames by the MTU', () => expect(limitsOf({ egressRate: 8000 }, 9000)?.egress?.burstBytes).toBe(2 * 9018))

  it('have an ifb for traffic out of the pod only', () => {
    expect(limitsOf({ ingressRate: mbit })).not.toHaveProperty('egress')
    expect(limitsOf({ egressRate: mbit })?.egress).toMatchObject({ ifb: expect.stringMatching(/^ifb[0-9a-f]{12}$/) })
  })
})

describe('operations', () => {
  const both = limitsOf({ ingressRate: 8 * mbit, egressRate: 4 * mbit })
  const ifb = both?.egress?.ifb ?? ''
  const kindsOf = (part: 'ops' | 'undo', conf: BandwidthConf, chained?: object) => {
    const spec = { ...emptySpec(id, 'bridge'), ...(chained && { chained }), bandwidth: limitsOf(conf) } as never
    return (bandwidth[part]?.(spec) ?? []).map(
      (op) => `${op.kind} ${'dev' in op ? op.dev : 'name' in op ? op.name : ''}`,
    )
  }

  it('put a bucket on the host end, and one on an ifb behind the redirect', () => {
    expect(kindsOf('ops', { ingressRate: 8 * mbit })).toEqual(['bucket.set veth1'])
    expect(kindsOf('ops', { ingressRate: 8 * mbit, egressRate: 4 * mbit })).toEqual([
      ...[`ifb.add ${ifb}`, `link.set ${ifb}`, 'bucket.set veth1', 'redirect.set veth1', `bucket.set ${ifb}`],
    ])
  })

  it('take off a link that stays what was put on it, and no more', () => {
    const undo = (conf: BandwidthConf) => kindsOf('undo', conf, {}).length
    expect([{ ingressRate: mbit, egressRate: mbit }, { ingressRate: mbit }, { egressRate: mbit }].map(undo)).toEqual([
      2, 1, 1,
    ])
    expect(kindsOf('undo', { ingressRate: mbit })).toEqual([])
  })
})
