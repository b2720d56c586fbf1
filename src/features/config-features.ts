// SPDX-License-Identifier: Apache-2.0
// The keys of the upstream bandwidth and sbr plugins.

import { type Address, formatAddress, parseAddress } from '../cni/address.ts'
import { defined } from '../cni/defined.ts'
import { configError, type KeyPath, notA, quote, unsupported } from '../cni/invalid-config.ts'
import type { BandwidthConf, SbrConf } from '../config/net-conf.ts'
import type { RawConfig } from '../config/schema.ts'

type Rates = NonNullable<RawConfig['bandwidth']>

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
export function readBandwidth(raw: Pick<RawConfig, 'bandwidth' | 'runtimeConfig'>): BandwidthConf | undefined {
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

function readGateways(texts: readonly string[]): readonly string[] {
  const path = ['sbr', 'gateways']
  const more = { id: 'sbr-gateways', hint: 'use at most one IPv4 and one IPv6 address' } as const
  if (texts.length > 2)
    throw configError(path, 'gateways list cannot contain more than 2 entries (one IPv4, one IPv6)', more)
  const gateways = texts.map((text, index): Address => {
    const gateway = parseAddress(text)
    if (gateway !== undefined) return gateway
    throw configError([...path, index], `invalid static gateway IP address: ${quote(text)}`, more)
  })
  const [a, b] = gateways
  if (a !== undefined && b !== undefined && a.family === b.family) {
    const both = `${formatAddress(a)} and ${formatAddress(b)}`
    throw configError(path, `gateways list contains multiple IPv${a.family} addresses: ${both}`, more)
  }
  return gateways.map(formatAddress)
}

/** Source-based routing settings. Throws CniError invalidConfig. */
export function readSbr(raw: RawConfig['sbr']): SbrConf | undefined {
  if (raw === undefined) return undefined
  return {
    ...defined({ table: raw.table }),
    gateways: readGateways(raw.gateways ?? []),
    addSourceHints: raw.addSourceHints ?? false,
  }
}

/** `ipMasqBackend`: both words mean nftables here; another is refused with code 2 (docs/design.md, "Rules"). */
export function checkMasqBackend(backend: string | undefined): void {
  if (['', 'iptables', 'nftables'].includes(backend ?? '')) return
  throw unsupported(['ipMasqBackend'], backend, 'leave it out: trestle uses nftables')
}
