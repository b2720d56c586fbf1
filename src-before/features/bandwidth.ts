// SPDX-License-Identifier: Apache-2.0
// Bandwidth: a token bucket on the host's end for traffic into the pod, and one on an ifb device for
// traffic out of it, where the pod cannot take it off (docs/design.md, "Upstream bandwidth").

import type * as z from 'zod/mini'
import { configError, type KeyPath, notA } from '../cni/error.ts'
import { group, integer } from '../cni/fields.ts'
import { defined } from '../cni/json.ts'
import type { AttachmentKey, BandwidthSpec, Shaper } from '../model/attachment.ts'
import { ifbAlias, ifbMac, ifbName } from '../model/names.ts'
import type { Op } from '../model/op.ts'
import type { Feature } from './feature.ts'

/** Bits or bits per second, up to Go's uint64. */
const bits = integer(0, 2 ** 64, 'a number of bits')

/** `bandwidth`, and the same of runtimeConfig. */
export const rates = group({ ingressRate: bits, ingressBurst: bits, egressRate: bits, egressBurst: bits })

type Rates = z.output<typeof rates>

/** Bits per second and bits, as the upstream bandwidth plugin. Absent: not limited. */
export interface BandwidthConf {
  readonly ingressRate?: number
  readonly ingressBurst?: number
  readonly egressRate?: number
  readonly egressBurst?: number
}

/** How long a packet may wait in a full bucket's queue, as upstream (25 ms). */
const latencyMs = 25

/**
 * Without a burst (runtimes send 2^32-1 for "unset"): what the rate carries in 20 ms. The first
 * second then is 2 % over the rate, not minutes of unlimited traffic (plugins#609).
 */
const defaultBurstMs = 20

/** A bucket smaller than two full frames drops everything; link-layer header and VLAN tag on top of the MTU. */
const frameOverheadBytes = 18

/** tbf counts a bucket as the time to fill it, in 2^32 ticks of 64 ns (iproute2 tc/tc_core.c): more wraps around. */
const longestFillS = 270

/** tc cuts that time to whole microseconds (iproute2 tc/tc_core.c): of less than one nothing would be left. */
const shortestFillS = 3e-6

/** Sizes of tbf have 32 bits. A higher rate than this has no bucket that tc can tell from another; no link has it. */
const mostBytes = 2 ** 32 - 1
const mostRateBits = 1e14

/** The limits, or undefined where there are none. `link`: the host end. */
export function bandwidthSpec(
  conf: BandwidthConf | undefined,
  to: { key: AttachmentKey; link: string; mtu: number },
): BandwidthSpec | undefined {
  const ingress = shaper(conf?.ingressRate, conf?.ingressBurst, to.mtu)
  const egress = shaper(conf?.egressRate, conf?.egressBurst, to.mtu)
  if (ingress === undefined && egress === undefined) return undefined
  return {
    link: to.link,
    mtu: to.mtu,
    ...(ingress ? { ingress } : {}),
    ...(egress
      ? { egress: { ...egress, ifb: ifbName(to.key), ifbMac: ifbMac(to.key), ifbAlias: ifbAlias(to.key) } }
      : {}),
  }
}

/** The device that traffic out of the pod is shaped on. */
export function ifbOps(spec: BandwidthSpec): readonly Op[] {
  if (spec.egress === undefined) return []
  const { ifb, ifbMac, ifbAlias: alias } = spec.egress
  return [
    {
      in: 'host',
      kind: 'ifb.add',
      name: ifb,
      mac: ifbMac,
      mtu: spec.mtu,
      why: `create ${ifb} for traffic out of the pod`,
    },
    // A link takes no alias while it is made (net/core/rtnetlink.c, rtnl_create_link).
    ...(alias === undefined
      ? []
      : [{ in: 'host', kind: 'link.alias', dev: ifb, alias, noLinkLocal: false, why: `mark ${ifb} as ours` } as const]),
  ]
}

/** What holds of an ifb that is there: one that is down, or carries less than the pod sends, lets nothing out. */
function ifbStateOps(spec: BandwidthSpec | undefined): readonly Op[] {
  if (spec?.egress === undefined) return []
  const { ifb: dev } = spec.egress
  return [
    { in: 'host', kind: 'link.mtu', dev, mtu: spec.mtu, why: `set the MTU of ${dev}` },
    { in: 'host', kind: 'link.up', dev, why: `set ${dev} up` },
  ]
}

export function queueOps(spec: BandwidthSpec): readonly Op[] {
  const { link, ingress, egress } = spec
  return [
    ...(ingress ? [bucket(link, ingress, 'into')] : []),
    ...(egress
      ? [
          { in: 'host', kind: 'qdisc.ingress', dev: link, why: `see traffic out of the pod on ${link}` } as const,
          {
            in: 'host',
            kind: 'filter.redirect',
            dev: link,
            to: egress.ifb,
            why: `send traffic out of the pod through ${egress.ifb}`,
          } as const,
          bucket(egress.ifb, egress, 'out of'),
        ]
      : []),
  ]
}

/** Takes the queueing off a host end that stays: it is not ours. */
export function unqueueOps({ link, ingress, egress }: BandwidthSpec): readonly Op[] {
  const why = `take the bandwidth limit off ${link}`
  return [
    ...(ingress ? [{ in: 'host', kind: 'qdisc.del', dev: link, at: 'root', why } as const] : []),
    ...(egress ? [{ in: 'host', kind: 'qdisc.del', dev: link, at: 'ingress', why } as const] : []),
  ]
}

function bucket(dev: string, { rateBits, burstBytes }: Shaper, way: string): Op {
  const why = `limit traffic ${way} the pod to ${rateBits} bit/s on ${dev}`
  return { in: 'host', kind: 'qdisc.tbf', dev, rateBits, burstBytes, limitBytes: limitOf(rateBits, burstBytes), why }
}

function shaper(wantedBits: number | undefined, burstBits: number | undefined, mtu: number): Shaper | undefined {
  if (wantedBits === undefined || wantedBits === 0) return undefined
  const rateBits = Math.min(wantedBits, mostRateBits)
  const wanted = burstBits === undefined ? (rateBits / 8 / 1000) * defaultBurstMs : burstBits / 8
  const least = Math.max(2 * (mtu + frameOverheadBytes), Math.ceil((rateBits / 8) * shortestFillS))
  const most = Math.min(Math.floor((rateBits / 8) * longestFillS), mostBytes)
  return { rateBits, burstBytes: Math.min(Math.max(Math.floor(wanted), least), most) }
}

function limitOf(rateBits: number, burstBytes: number): number {
  return Math.min(Math.floor((rateBits / 8 / 1000) * latencyMs) + burstBytes, mostBytes)
}

export const bandwidth: Feature = {
  hostOps: ({ bandwidth: limits }) => (limits === undefined ? [] : ifbOps(limits)),
  queueingOps: ({ bandwidth: limits }) => (limits === undefined ? [] : queueOps(limits)),
  stateOps: ({ bandwidth: limits }) => ifbStateOps(limits),
  links: ({ bandwidth: limits }) => (limits?.egress === undefined ? [] : [limits.egress.ifb]),
  // A host end of ours takes its queueing along.
  hostTeardownOps: ({ bandwidth: limits, chained }) =>
    limits === undefined || chained === undefined ? [] : unqueueOps(limits),
}

/**
 * What containerd and CRI-O send as burst when a pod has a rate only (MaxInt32): no wish, so it counts
 * as unset. Above it upstream refuses values from 4 GB on; here they count as unset too.
 */
const NO_BURST = 2 ** 31 - 1

/** A byte per second: tc(8) counts bytes. */
const LEAST_RATE = 8

function readPair(
  rates: Rates,
  way: 'ingress' | 'egress',
  path: KeyPath,
): { readonly rate?: number; readonly burst?: number } {
  const rate = rates[`${way}Rate`] ?? 0
  const given = rates[`${way}Burst`] ?? 0
  const burst = given >= NO_BURST ? 0 : given
  if (rate === 0 && burst > 0) {
    const more = { id: 'burst-without-rate', hint: 'use bits per second' } as const
    throw configError([...path, `${way}Rate`], 'if burst is set, rate must also be set', more)
  }
  if (rate > 0 && rate < LEAST_RATE) {
    const hint = `use bits per second, from ${LEAST_RATE} on, or leave it out`
    throw notA([...path, `${way}Rate`], rate, { id: 'rate-too-low', what: 'a rate that the kernel can keep', hint })
  }
  // Upstream wants a burst with every rate; ours has a default (features/bandwidth.ts).
  return defined({ rate: rate || undefined, burst: burst || undefined })
}

/** The limits, static ones before the runtime's; undefined when nothing is limited. Throws CniError invalidConfig. */
export function readBandwidth(raw: {
  readonly bandwidth?: Rates | undefined
  readonly runtimeConfig?: { readonly bandwidth?: Rates | undefined } | undefined
}): BandwidthConf | undefined {
  const fixed = Object.values(raw.bandwidth ?? {}).some((value) => (value ?? 0) > 0) ? raw.bandwidth : undefined
  const rates = fixed ?? raw.runtimeConfig?.bandwidth
  if (rates === undefined) return undefined
  const path = fixed === undefined ? ['runtimeConfig', 'bandwidth'] : ['bandwidth']
  const ingress = readPair(rates, 'ingress', path)
  const egress = readPair(rates, 'egress', path)
  const conf: BandwidthConf = defined({
    ingressRate: ingress.rate,
    ingressBurst: ingress.burst,
    egressRate: egress.rate,
    egressBurst: egress.burst,
  })
  return Object.keys(conf).length === 0 ? undefined : conf
}
