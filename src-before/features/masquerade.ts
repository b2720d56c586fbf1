// SPDX-License-Identifier: Apache-2.0
// The set elements that say which sources are masqueraded and which destinations are not. The
// kernel's interval sets refuse overlaps, and networks may overlap (one subnet inside another's):
// overlaps are taken apart here, so that equal networks always give equal elements.

import {
  bareAddress,
  bitsOf,
  type Cidr,
  canonicalAddress,
  compare,
  familyOf,
  formatAddress,
  formatCidr,
  includes,
  isSubnet,
  networkOf,
  overlaps,
  parseCidr,
  subtract,
} from '../cni/address.ts'
import { unsupported } from '../cni/error.ts'
import type { AttachmentSpec, NetworkSpec, PodAddress } from '../model/attachment.ts'
import type { Element, Op } from '../model/op.ts'
import { gatewayLink } from './bridge-port.ts'
import type { Feature } from './feature.ts'
import type { PortsConf } from './host-ports.ts'

/** What keeps the address of the pod makes an element with every range of the network. */
export const MOST_DESTINATIONS = 256

interface Pair {
  readonly source: Cidr
  readonly destination: Cidr
}

interface MasqueradeConf {
  readonly ipMasq: boolean
  readonly nonMasqueradeCidrs: readonly string[]
}

/** What the configuration masquerades of the pods' `subnets`, if anything. */
export function masqueradeSpec(
  { ipMasq, nonMasqueradeCidrs }: MasqueradeConf,
  subnets: readonly string[],
): NetworkSpec['masquerade'] {
  if (!ipMasq || subnets.length === 0) return undefined
  return { subnets, noMasquerade: [...new Set([...subnets, ...nonMasqueradeCidrs])].sort() }
}

/** The same of a chained pod. One that has no subnet, too, says so: the network keeps those of its other pods. */
export function chainedMasquerade(conf: MasqueradeConf, subnets: readonly string[]): NetworkSpec['masquerade'] {
  const shared = subnets.filter(isSubnet)
  if (shared.length > 0 || !conf.ipMasq) return masqueradeSpec(conf, shared)
  return { subnets: [], noMasquerade: conf.nonMasqueradeCidrs.toSorted() }
}

export function masqueradeElements(networks: readonly NetworkSpec[]): readonly Element[] {
  const rules = networks.flatMap((network) => (network.masquerade ? [network.masquerade] : []))
  const kept = rules.map(({ subnets, noMasquerade }) => ({ first: subnets, second: noMasquerade }))
  const same = networks.map(({ hairpin = [] }) => ({ first: hairpin, second: hairpin }))
  return [
    ...subnetElements(
      'masq',
      rules.flatMap(({ subnets }) => subnets),
    ),
    ...pairElements('keep', kept),
    ...pairElements('hairpin', same),
  ]
}

export function masqueradeOps(elements: readonly Element[]): readonly Op[] {
  return elements.map((element) => ({ in: 'host', kind: 'nft.add', ...element, why: reasonOf(element) }))
}

function reasonOf({ set, key }: Element): string {
  const [source, destination] = key
  if (set.startsWith('keep')) return `keep the pod's address from ${source} to ${destination}`
  if (set.startsWith('hairpin')) return `masquerade what is translated from ${source} to ${destination}`
  return `masquerade pods of ${source}`
}

/** The elements of two sets (both families) that hold subnets: what is inside of another is left out. */
export function subnetElements(
  name: 'masq' | 'acceptnet' | 'podnet' | 'peernet',
  subnets: readonly string[],
): readonly Element[] {
  return outermost(subnets).map((cidr) => ({ set: `${name}${cidr.family}` as const, key: [prefixText(cidr)] }))
}

/** The elements of two sets that hold pairs: each of `first` with each of `second`, overlaps taken apart. */
export function pairElements(
  name: 'keep' | 'hairpin' | 'acceptnew',
  lists: readonly {
    readonly first: readonly string[]
    readonly second: readonly string[]
  }[],
): readonly Element[] {
  return apart(lists.flatMap(({ first, second }) => pairsOf(first, second))).map((pair) => pairElement(name, pair))
}

function pairElement(name: 'keep' | 'hairpin' | 'acceptnew', { source, destination }: Pair): Element {
  return { set: `${name}${source.family}`, key: [prefixText(source), prefixText(destination)] }
}

/** As the kernel's sets are listed, to compare with that: a prefix of one address is the address. */
function prefixText(cidr: Cidr): string {
  return cidr.prefixLength === bitsOf(cidr.family) ? formatAddress(cidr) : formatCidr(cidr)
}

function pairsOf(first: readonly string[], second: readonly string[]): readonly Pair[] {
  return first
    .flatMap((text) => parseCidr(text) ?? [])
    .flatMap((source) =>
      second
        .flatMap((text) => parseCidr(text) ?? [])
        .flatMap((destination) => (source.family === destination.family ? [{ source, destination }] : [])),
    )
}

/** Those that no other contains: sorted, each comes right behind what contains it. There may be thousands. */
function outermost(texts: readonly string[]): readonly Cidr[] {
  const sorted = texts
    .flatMap((text) => parseCidr(text) ?? [])
    .map(networkOf)
    .sort((a, b) => compare(a, b) || a.prefixLength - b.prefixLength)
  const kept: Cidr[] = []
  for (const cidr of sorted) {
    const last = kept.at(-1)
    if (last === undefined || !overlaps(last, cidr)) kept.push(cidr)
  }
  return kept
}

/** Pairs as disjoint rectangles: what an earlier pair covers is cut out of the later one's destination. */
function apart(pairs: readonly Pair[]): readonly Pair[] {
  const sorted = [...pairs].sort(
    (a, b) => a.source.prefixLength - b.source.prefixLength || a.destination.prefixLength - b.destination.prefixLength,
  )
  // By source: most sources do not contain each other, and their pairs need no look at all.
  const done = new Map<string, { readonly source: Cidr; readonly pairs: Pair[] }>()
  for (const pair of sorted) {
    const { source } = pair
    const covering = [...done.values()].filter((other) => contains(other.source, source))
    const left = remainder(
      pair,
      covering.flatMap((other) => other.pairs),
    )
    const key = formatCidr(source)
    const known = done.get(key)
    if (known === undefined) done.set(key, { source, pairs: [...left] })
    else known.pairs.push(...left)
  }
  return [...done.values()].flatMap(({ pairs: found }) => found)
}

/** What `covered`, pairs of sources that contain this one's, leave of the pair. */
function remainder(pair: Pair, covered: readonly Pair[]): readonly Pair[] {
  let left: readonly Cidr[] = [pair.destination]
  for (const other of covered) left = left.flatMap((cidr) => cut(cidr, other.destination))
  return left.map((destination) => ({ source: pair.source, destination }))
}

function cut(cidr: Cidr, hole: Cidr): readonly Cidr[] {
  if (contains(hole, cidr)) return []
  return overlaps(cidr, hole) ? subtract(cidr, hole) : [cidr]
}

function contains(outer: Cidr, inner: Cidr): boolean {
  return outer.family === inner.family && outer.prefixLength <= inner.prefixLength && includes(outer, inner)
}

// A chained pod's addresses may have no subnet (Calico, Cilium, the AWS plugin). As subnets of the network they would
// be one for each pod, for ever, and an element for each pair of pods. They are the attachment's own, until its DEL.

/** What the configuration masquerades of the pod alone, if anything. */
export function hostMasquerade(conf: MasqueradeConf, ips: readonly PodAddress[]): AttachmentSpec['masquerade'] {
  const addresses = singleAddresses(ips)
  return conf.ipMasq && addresses.length > 0 ? { addresses, noMasquerade: conf.nonMasqueradeCidrs } : undefined
}

/** Those of the pod's addresses that have no subnet, without prefix length. */
function singleAddresses(ips: readonly PodAddress[]): readonly string[] {
  const single = ips.filter(({ address }) => !isSubnet(address))
  return single.map(({ address }) => canonicalAddress(bareAddress(address)))
}

export const masquerade: Feature = {
  elements: ({ masquerade: own }) => own?.addresses.flatMap((address) => hostElements(address, own.noMasquerade)) ?? [],
}

function hostElements(address: string, noMasquerade: readonly string[]): readonly Element[] {
  const family = familyOf(address)
  const kept = outermost(noMasquerade).filter((cidr) => cidr.family === family)
  return [
    { set: `masqhost${family}`, key: [address] },
    ...kept.map((cidr): Element => ({ set: `keephost${family}`, key: [address, prefixText(cidr)] })),
  ]
}

/**
 * An address may be another pod's before the DEL of its first one. The later of the two says what keeps it: interval
 * sets refuse overlaps.
 */
export function withoutFormerHosts(attachments: readonly AttachmentSpec[]): readonly AttachmentSpec[] {
  const last = new Map(attachments.flatMap((spec) => spec.masquerade?.addresses.map((each) => [each, spec]) ?? []))
  const owned = (spec: AttachmentSpec, { addresses, ...rest }: NonNullable<AttachmentSpec['masquerade']>) => {
    return { ...rest, addresses: addresses.filter((address) => last.get(address) === spec) }
  }
  return attachments.map((spec) => (spec.masquerade ? { ...spec, masquerade: owned(spec, spec.masquerade) } : spec))
}

// Clients that are masqueraded towards a pod of their own link, as elements. The answer to a translated packet has to
// come back through the translation, and would go straight to a client on the same bridge. With br_netfilter the host
// sees that answer, too: the rule of `hairpin4` (tools/nft.ts) asks each packet whether it was bridged.

/** Wherever packets to the pods may be translated: services where the network masquerades, and host ports. */
export function wantsHairpin(conf: PortsConf & { readonly ipMasq: boolean }): boolean {
  return (conf.ipMasq || conf.portMappings.length > 0) && conf.portmap?.snat !== false
}

/** What is routed back to the bridge it came from: of main attachments the network tells the bridge. */
export function hairpinElements({ bridge, hairpin }: NetworkSpec): readonly Element[] {
  return bridge === undefined || hairpin === undefined ? [] : [hairpinLink(gatewayLink(bridge))]
}

/** The same for one link of the host that pods share. */
export function hairpinLink(link: string): Element {
  return { set: 'hairpinlink', key: [link, link] }
}

/**
 * A pod that reaches itself through a translation takes no packet with its own address for a source. The node's host
 * ports are translated by us; kube-proxy masquerades what it translates itself.
 */
export function selfHairpinElements({ selfHairpin, ips }: AttachmentSpec): readonly Element[] {
  if (!selfHairpin) return []
  return ips.map(({ address }) => {
    const bare = bareAddress(address)
    return { set: `self${familyOf(bare)}`, key: [bare, bare] }
  })
}

/** `ipMasqBackend`: both words mean nftables here; another is refused with code 2 (docs/design.md, "Rules"). */
export function checkMasqBackend(backend: string | undefined): void {
  if (['', 'iptables', 'nftables'].includes(backend ?? '')) return
  throw unsupported(['ipMasqBackend'], backend, 'leave it out: trestle uses nftables')
}
