// SPDX-License-Identifier: Apache-2.0
// Masquerade: which sources leave with the node's address, which destinations see the pod's own, and where a client must
// be masqueraded because the answer to a translated packet would otherwise go straight to it.

import {
  bareAddress,
  bitsOf,
  type Cidr,
  compareAddresses,
  contains,
  familyOf,
  formatAddress,
  formatCidr,
  isSubnet,
  networkOf,
  overlaps,
  subtract,
  toCidr,
} from '../cni/addresses.ts'
import { unsupported } from '../cni/errors.ts'
import type { OwnConf } from '../config/network-conf.ts'
import type { NetworkSpec, PodAddress, Spec } from '../drivers/spec.ts'
import type { BareElement, Feature } from './feature.ts'

/** `ipMasqBackend`: both words mean nftables here; another is refused. */
export function checkMasqueradeBackend(backend: string | undefined): void {
  if (['', 'iptables', 'nftables'].includes(backend ?? '')) return
  throw unsupported(['ipMasqBackend'], backend, 'leave it out: trestle uses nftables')
}

/** What the network masquerades. An address without a subnet (/32) is no source of the network, see `masquerade`. */
export function masqueradeOf(
  { ipMasq, nonMasqueradeCidrs }: OwnConf,
  ranges: readonly string[],
): NetworkSpec['masquerade'] {
  if (!ipMasq) return undefined
  const sources = ranges.filter(isSubnet)
  return { sources, keep: [...new Set([...sources, ...nonMasqueradeCidrs])].sort() }
}

/** Wherever packets to the pods may be translated: by Services where the network masquerades, and by host ports. */
export function isTranslated({ ipMasq, portMappings, portmap }: OwnConf): boolean {
  return (ipMasq || portMappings.length > 0) && portmap.snat
}

/** A chained pod's addresses without a subnet are elements of their own, removed with the pod (Calico, Cilium, AWS). */
export function singleAddresses(
  { ipMasq, nonMasqueradeCidrs }: OwnConf,
  ips: readonly PodAddress[],
): Spec['masquerade'] {
  const addresses = ips.filter(({ address }) => !isSubnet(address)).map(({ address }) => bareAddress(address))
  return ipMasq && addresses.length > 0 ? { addresses, keep: nonMasqueradeCidrs } : undefined
}

export const masquerade: Feature = {
  elements: ({ masquerade: own, reachesItself, addresses }) => {
    const elements: BareElement[] = []
    for (const address of own?.addresses ?? []) {
      const family = familyOf(address)
      elements.push({ set: `masqhost${family}`, key: [address] })
      const keep = outermost(own?.keep ?? []).filter((cidr) => cidr.family === family)
      for (const cidr of keep) elements.push({ set: `keephost${family}`, key: [address, prefixText(cidr)] })
    }
    // A pod takes no packet from its own address: it has to be masqueraded on the way to itself.
    for (const address of reachesItself ? addresses.map((each) => bareAddress(each.address)) : [])
      elements.push({ set: `self${familyOf(address)}`, key: [address, address] })
    return elements
  },
}

/** The elements that networks share. The same networks always give the same elements, in whatever order they come. */
export function masqueradeElements(networks: readonly NetworkSpec[]): readonly BareElement[] {
  const rules = networks.flatMap((network) => network.masquerade ?? [])
  const sources = rules.flatMap((rule) => rule.sources)
  const kept = rules.map((rule) => ({ first: rule.sources, second: rule.keep }))
  const hairpins = networks.map(({ hairpin }) => ({ first: hairpin, second: hairpin }))
  return [...prefixElements('masq', sources), ...pairElements('keep', kept), ...pairElements('hairpin', hairpins)]
}

/** Elements of a set of prefixes, in both families. Interval sets refuse overlaps: what is inside another is left out. */
export function prefixElements(
  name: 'masq' | 'acceptnet' | 'podnet' | 'peernet',
  prefixes: readonly string[],
): readonly BareElement[] {
  return outermost(prefixes).map((cidr) => ({ set: `${name}${cidr.family}` as const, key: [prefixText(cidr)] }))
}

type Pair = { readonly source: Cidr; readonly destination: Cidr }

/** Elements of a set of pairs: each of `first` with each of `second`, overlaps taken apart. */
export function pairElements(
  name: 'keep' | 'hairpin' | 'acceptnew',
  lists: readonly { readonly first: readonly string[]; readonly second: readonly string[] }[],
): readonly BareElement[] {
  const pairs: Pair[] = []
  for (const { first, second } of lists) {
    for (const source of first.map(toCidr)) {
      for (const destination of second.map(toCidr))
        if (source.family === destination.family) pairs.push({ source, destination })
    }
  }
  return disjoint(pairs).map(({ source, destination }) => ({
    set: `${name}${source.family}` as const,
    key: [prefixText(source), prefixText(destination)],
  }))
}

/** The prefixes that no other one contains: sorted, each comes right behind what contains it. */
function outermost(prefixes: readonly string[]): readonly Cidr[] {
  const sorted = prefixes
    .map((text) => networkOf(toCidr(text)))
    .sort((a, b) => compareAddresses(a, b) || a.prefixLength - b.prefixLength)
  const kept: Cidr[] = []
  for (const cidr of sorted) {
    const last = kept.at(-1)
    if (last === undefined || !overlaps(last, cidr)) kept.push(cidr)
  }
  return kept
}

/** Pairs without a packet in common: what a pair with a wider source covers is cut out of the other's destination. */
function disjoint(pairs: readonly Pair[]): readonly Pair[] {
  const sorted = pairs.toSorted(
    (a, b) => a.source.prefixLength - b.source.prefixLength || a.destination.prefixLength - b.destination.prefixLength,
  )
  const done: Pair[] = []
  for (const { source, destination } of sorted) {
    let left: readonly Cidr[] = [destination]
    for (const other of done.filter((pair) => contains(pair.source, source))) {
      left = left.flatMap((cidr) => {
        if (contains(other.destination, cidr)) return []
        return contains(cidr, other.destination) ? subtract(cidr, other.destination) : [cidr]
      })
    }
    done.push(...left.map((rest) => ({ source, destination: rest })))
  }
  return done
}

/** As nft lists it: the prefix of one address is the address. */
function prefixText(cidr: Cidr): string {
  return cidr.prefixLength === bitsOf(cidr.family) ? formatAddress(cidr) : formatCidr(networkOf(cidr))
}
