// SPDX-License-Identifier: Apache-2.0
// Limits as token buckets: sizes in bytes, a bucket without a burst, what hangs on which link.

import { describe, expect, it } from 'vitest'
import { type BandwidthConf, bandwidthSpec, ifbOps, queueOps, unqueueOps } from '../../../src-before/features/bandwidth.ts'
import { goldenKey } from '../../support/golden.ts'

const mbit = 1_000_000
const of = (conf: BandwidthConf | undefined, mtu = 1500) => bandwidthSpec(conf, { key: goldenKey, link: 'veth1', mtu })

describe('bandwidthSpec', () => {
  it.each<[string, BandwidthConf | undefined]>([
    ['nothing', undefined],
    ['no limits', {}],
    ['limits of zero', { ingressRate: 0, egressRate: 0 }],
  ])('is nothing for %s', (_, conf) => expect(of(conf)).toBeUndefined())

  it.each<[string, BandwidthConf, number]>([
    ['what the rate carries in 20 ms where no burst is given', { ingressRate: 10 * mbit }, 25_000],
    ['the given burst, in bytes', { ingressRate: 10 * mbit, ingressBurst: 800_000 }, 100_000],
    ['two frames at least: of a slow rate', { ingressRate: 100_000 }, 2 * 1518],
    ['two frames at least: of a small burst', { ingressRate: 10 * mbit, ingressBurst: 8 }, 2 * 1518],
    ['what the kernel can count: of a slow rate', { ingressRate: 8 }, 270],
    ['what the kernel can count: of a large burst', { ingressRate: mbit, ingressBurst: 1000 * mbit }, 33_750_000],
    ['3 us at least: tc cuts to whole ones', { ingressRate: 100_000 * mbit, ingressBurst: 8 }, 37_500],
    ['32 bits at most', { ingressRate: 1e14 }, 2 ** 32 - 1],
  ])('has a bucket of %s', (_, conf, burstBytes) => {
    expect(of(conf)?.ingress).toEqual({ rateBits: conf.ingressRate, burstBytes })
  })

  it('keeps a rate that no link has as 10^14', () => {
    const spec = of({ ingressRate: 1e15 })
    expect(spec?.ingress?.rateBits).toBe(1e14)
    expect(spec && queueOps(spec)[0]).toMatchObject({ limitBytes: 2 ** 32 - 1 })
  })

  it('counts frames by the MTU', () => expect(of({ egressRate: 8000 }, 9000)?.egress?.burstBytes).toBe(2 * 9018))

  it('has an ifb for traffic out of the pod only', () => {
    expect(of({ ingressRate: mbit })).not.toHaveProperty('egress')
    const { egress } = of({ egressRate: mbit }) ?? {}
    expect(egress).toMatchObject({ ifb: expect.stringMatching(/^ifb[0-9a-f]{12}$/), rateBits: mbit })
  })
})

describe('operations', () => {
  const both = of({ ingressRate: 8 * mbit, egressRate: 4 * mbit })
  const into = of({ ingressRate: 8 * mbit })
  const out = of({ egressRate: 4 * mbit })
  const said = (spec: typeof both, make: typeof queueOps) =>
    spec === undefined ? [] : make(spec).map((op) => `${op.kind} ${'dev' in op ? op.dev : 'name' in op ? op.name : ''}`)
  const ifb = both?.egress?.ifb

  it('make the ifb only where it is used', () => {
    expect(said(both, ifbOps)).toEqual([`ifb.add ${ifb}`, `link.alias ${ifb}`])
    expect(said(into, ifbOps)).toEqual([])
  })
  it('put a bucket on the host end and one behind the redirect', () => {
    expect(said(into, queueOps)).toEqual(['qdisc.tbf veth1'])
    expect(said(out, queueOps)).toEqual(['qdisc.ingress veth1', 'filter.redirect veth1', `qdisc.tbf ${ifb}`])
    expect(said(both, queueOps)).toHaveLength(4)
  })
  it('let 25 ms of traffic wait behind a full bucket', () => {
    expect(both && queueOps(both)[0]).toMatchObject({ burstBytes: 20_000, limitBytes: 20_000 + 25_000 })
  })
  it('take off a link that stays what was put on it, and no more', () => {
    expect(both && unqueueOps(both)).toMatchObject([{ at: 'root' }, { at: 'ingress' }])
    expect(into && unqueueOps(into)).toMatchObject([{ at: 'root' }])
    expect(out && unqueueOps(out)).toMatchObject([{ at: 'ingress' }])
  })
})
