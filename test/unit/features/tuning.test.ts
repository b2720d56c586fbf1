// SPDX-License-Identifier: Apache-2.0
// Settings of the pod's interface: made, noted before they are changed on an interface of others, put back.

import { describe, expect, it } from 'vitest'
import {
  chainedTuningSpec,
  tunedLinkOps,
  tunedSysctlOps,
  tuningSpec,
  untunedLinkOps,
} from '../../../src-before/features/tuning.ts'
import type { ObservedLink } from '../../../src-before/model/observed.ts'
import { type Json, read } from '../cni/call.ts'

const conf = (tuning: Json | undefined) => read({ tuning })
const link: ObservedLink = {
  name: 'eth0',
  index: 2,
  mac: '0a:00:00:00:00:01',
  mtu: 1500,
  up: true,
  promisc: false,
  allmulti: true,
  txqlen: 1000,
  addresses: [],
}
const linesOf = (ops: readonly object[]) => ops.map((op) => JSON.stringify({ ...op, why: undefined, in: undefined }))

describe('an interface of ours', () => {
  it('has no settings without tuning', () => expect(tuningSpec(conf(undefined))).toBeUndefined())

  it('is made with its MAC and MTU, so that they are no settings', () => {
    const spec = tuningSpec(conf({ mac: '0a:00:00:00:00:10', mtu: 1400, txQLen: 5, allmulti: false, promisc: true }))
    expect(spec).toEqual({ sysctl: {}, promisc: true, txQLen: 5, allmulti: false })
  })

  it('is set in one order: MAC before MTU, promisc only where it is wanted', () => {
    const all = { mac: '0a:00:00:00:00:10', mtu: 1400, promisc: true, allmulti: false, txQLen: 0 }
    expect(linesOf(tunedLinkOps(all, 'eth0'))).toEqual([
      '{"kind":"link.mac","dev":"eth0","mac":"0a:00:00:00:00:10"}',
      '{"kind":"link.mtu","dev":"eth0","mtu":1400}',
      '{"kind":"link.promisc","dev":"eth0"}',
      '{"kind":"link.allmulti","dev":"eth0","on":false}',
      '{"kind":"link.txqlen","dev":"eth0","length":0}',
    ])
    expect(tunedLinkOps({ promisc: false }, 'eth0')).toEqual([])
  })

  it('has sysctls by path, with the name of the interface in it', () => {
    const spec = tuningSpec(conf({ sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1', 'net/core/somaxconn': '9' } }))
    expect(spec && tunedSysctlOps(spec)).toMatchObject([
      { in: 'pod', key: 'net/ipv4/conf/eth0/arp_filter', value: '1' },
      { in: 'pod', key: 'net/core/somaxconn', value: '9' },
    ])
  })
})

describe('an interface of others', () => {
  it('is noted as it was before, for each setting that changes', () => {
    const all = chainedTuningSpec(
      conf({ mtu: 1400, txQLen: 5, allmulti: false, promisc: true }),
      '0a:00:00:00:00:10',
      link,
    )
    expect(all).toMatchObject({
      mac: '0a:00:00:00:00:10',
      mtu: 1400,
      before: { mac: link.mac, mtu: 1500, promisc: false, allmulti: true, txQLen: 1000 },
    })
    expect(chainedTuningSpec(conf({ mtu: 1400 }), undefined, link)?.before).toEqual({ mtu: 1500 })
  })

  it('has nothing to set where nothing is asked for', () => {
    expect(chainedTuningSpec(conf({}), undefined, link)).toBeUndefined()
    expect(chainedTuningSpec(conf(undefined), undefined, link)).toBeUndefined()
  })

  it('is put back as it was', () => {
    const spec = chainedTuningSpec(conf({ mtu: 1400, allmulti: false, promisc: true }), '0a:00:00:00:00:10', link)
    expect(spec && linesOf(untunedLinkOps(spec, 'eth0'))).toEqual([
      '{"kind":"link.promisc","dev":"eth0","on":false}',
      '{"kind":"link.mac","dev":"eth0","mac":"0a:00:00:00:00:01"}',
      '{"kind":"link.mtu","dev":"eth0","mtu":1500}',
      '{"kind":"link.allmulti","dev":"eth0","on":true}',
    ])
  })

  it('that was promiscuous before stays it', () => {
    const spec = chainedTuningSpec(conf({ promisc: true }), undefined, { ...link, promisc: true })
    expect(spec && untunedLinkOps(spec, 'eth0')).toEqual([])
  })
})
