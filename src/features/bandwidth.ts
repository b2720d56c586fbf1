// SPDX-License-Identifier: Apache-2.0
// Bandwidth: a token bucket on the host end for traffic into the pod, and one on an ifb device for traffic out of it,
// where the pod cannot take it off. Keys and units are those of the reference bandwidth plugin.

import { configError, type KeyPath, notA } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import type { BandwidthConf } from '../config/network-conf.ts'
import type { RawConfig } from '../config/schema.ts'
import { aliasOf, ifbMac, ifbName } from '../drivers/names.ts'
import type { AttachmentId, BandwidthSpec, Shaper } from '../drivers/spec.ts'
import { type Op, setLink } from '../kernel/operation.ts'
import { mostBucketBytes } from '../kernel/queues.ts'
import type { Feature } from './feature.ts'

type Rates = NonNullable<RawConfig['bandwidth']>

/** What containerd and CRI-O send as the burst of a pod that has a rate only (MaxInt32): no wish. */
const noBurst = 2 ** 31 - 1

/** tc counts bytes. */
const leastRateBits = 8

/** The limits, those of the configuration before the runtime's. Throws CniError 7. */
export function readBandwidth({ bandwidth, runtimeConfig }: RawConfig): BandwidthConf | undefined {
  const isFixed = Object.values(bandwidth ?? {}).some((value) => (value ?? 0) > 0)
  const rates = isFixed ? bandwidth : runtimeConfig?.bandwidth
  if (rates === undefined) return undefined
  const path = isFixed ? ['bandwidth'] : ['runtimeConfig', 'bandwidth']
  const [ingressRate, ingressBurst] = readPair(rates, 'ingress', path)
  const [egressRate, egressBurst] = readPair(rates, 'egress', path)
  const conf: BandwidthConf = defined({ ingressRate, ingressBurst, egressRate, egressBurst })
  return Object.keys(conf).length === 0 ? undefined : conf
}

/** Rate and burst, where they are given. */
function readPair(rates: Rates, way: 'ingress' | 'egress', path: KeyPath) {
  const rate = rates[`${way}Rate`] ?? 0
  const given = rates[`${way}Burst`] ?? 0
  const burst = given >= noBurst ? 0 : given
  if (rate === 0 && burst > 0) {
    const more = { id: 'burst-without-rate', hint: 'use bits per second' }
    throw configError([...path, `${way}Rate`], 'if burst is set, rate must also be set', more)
  }
  if (rate > 0 && rate < leastRateBits) {
    const hint = `use bits per second, from ${leastRateBits} on, or leave it out`
    throw notA([...path, `${way}Rate`], rate, { id: 'rate-too-low', what: 'a rate that the kernel can keep', hint })
  }
  return [rate || undefined, burst || undefined] as const
}

/** The limits of an attachment; undefined where there are none. `link`: the host end, with its MTU. */
export function bandwidthOf(
  conf: BandwidthConf | undefined,
  to: { id: AttachmentId; link: string; mtu: number },
): BandwidthSpec | undefined {
  const ingress = shaperOf(conf?.ingressRate, conf?.ingressBurst, to.mtu)
  const egress = shaperOf(conf?.egressRate, conf?.egressBurst, to.mtu)
  if (ingress === undefined && egress === undefined) return undefined
  const ifb = egress && { ...egress, ifb: ifbName(to.id), ifbMac: ifbMac(to.id) }
  return { link: to.link, mtu: to.mtu, ...defined({ ingress, egress: ifb }) }
}

/** Without a burst: what the rate carries in 20 ms, not minutes of unlimited traffic (plugins#609). */
const defaultBurstMs = 20

/** A bucket smaller than two full frames drops everything: link-layer header and VLAN tag on top of the MTU. */
const frameOverheadBytes = 18

/** tc keeps a bucket as the time that fills it, in 2^32 ticks of 64 ns, cut to whole microseconds (tc/tc_core.c). */
const longestFillSeconds = 270
const shortestFillSeconds = 3e-6

/** No link has more, and tc could not tell the buckets of higher rates apart. */
const mostRateBits = 1e14

function shaperOf(wantedBits: number | undefined, burstBits: number | undefined, mtu: number): Shaper | undefined {
  if (wantedBits === undefined) return undefined
  const rateBits = Math.min(wantedBits, mostRateBits)
  const bytesPerSecond = rateBits / 8
  const wanted = burstBits === undefined ? (bytesPerSecond / 1000) * defaultBurstMs : burstBits / 8
  const least = Math.max(2 * (mtu + frameOverheadBytes), Math.ceil(bytesPerSecond * shortestFillSeconds))
  const most = Math.min(Math.floor(bytesPerSecond * longestFillSeconds), mostBucketBytes)
  return { rateBits, burstBytes: Math.min(Math.max(Math.floor(wanted), least), most) }
}

export const bandwidth: Feature = {
  ops: ({ id, bandwidth: limits }) => {
    // The rates of an attachment that was found again are not known.
    if (limits === undefined || limits.egress?.rateBits === 0) return []
    const { link, ingress, egress, mtu } = limits
    const ops: Op[] = []
    if (egress !== undefined) {
      const { ifb, ifbMac: mac } = egress
      ops.push(
        { place: 'host', kind: 'ifb.add', name: ifb, mac, mtu, why: `create ${ifb} for traffic out of the pod` },
        // A link takes no alias while it is made (net/core/rtnetlink.c, rtnl_create_link); one that is down lets nothing out.
        setLink('host', ifb, { alias: aliasOf(id, []), mtu, up: true }, `mark ${ifb} as ours`),
      )
    }
    if (ingress !== undefined) ops.push(limit(link, ingress, 'into the pod'))
    if (egress !== undefined) {
      const { ifb } = egress
      const why = `send traffic out of the pod through ${ifb}`
      ops.push({ place: 'host', kind: 'redirect.set', dev: link, to: ifb, why }, limit(ifb, egress, 'out of the pod'))
    }
    return ops
  },
  links: ({ bandwidth: limits }) => (limits?.egress === undefined ? [] : [limits.egress.ifb]),
  // A host end of ours takes its queues along.
  undo: ({ chained, bandwidth: limits }) => {
    // Without its link: the name is another pod's by now.
    if (limits === undefined || chained === undefined || limits.link === '') return []
    const { link: dev, ingress, egress } = limits
    const ends = [...(ingress ? (['root'] as const) : []), ...(egress ? (['ingress'] as const) : [])]
    return ends.map((at) => {
      return { place: 'host', kind: 'queue.delete', dev, at, tolerate: 'absent', why: `take the limit off ${dev}` }
    })
  },
}

function limit(dev: string, { rateBits, burstBytes }: Shaper, where: string): Op {
  const why = `limit traffic ${where} to ${rateBits} bit/s on ${dev}`
  return { place: 'host', kind: 'bucket.set', dev, rateBits, burstBytes, why }
}
