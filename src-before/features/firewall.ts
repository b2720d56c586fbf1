// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept: whose packets other firewalls are to let pass, and what was put where for it. An accept in our
// table cannot override a drop in another one (nft(8), "base chains"), so this is the one exception to keeping out of
// other people's tables: our chain marks (tools/nft.ts), and theirs has one accept of the mark (accept-place.ts).

import type * as z from 'zod/mini'
import { isSubnet } from '../cni/address.ts'
import { configError, notA, unsupported } from '../cni/error.ts'
import { group, integer, oneOf, readCidrs, text, textsUpTo } from '../cni/fields.ts'
import { defined } from '../cni/json.ts'
import type { AttachmentSpec, NetworkSpec } from '../model/attachment.ts'
import type { Element, Op } from '../model/op.ts'
import type { Feature } from './feature.ts'
import { MOST_DESTINATIONS, pairElements, subnetElements } from './masquerade.ts'

export const firewallKeys = group({
  ingressPolicy: oneOf(['', 'open', 'same-bridge', 'isolated']),
  hostAccept: oneOf(['auto', 'established', 'off']),
  acceptFrom: textsUpTo(MOST_DESTINATIONS),
  acceptMarkBit: integer(0, 31, 'a bit'),
  backend: text,
  iptablesAdminChainName: text,
  firewalldZone: text,
})

type Raw = z.output<typeof firewallKeys>

export interface FirewallConf {
  readonly ingressPolicy: 'open' | 'same-bridge' | 'isolated'
  readonly hostAccept: 'auto' | 'established' | 'off'
  /** Prefixes whose new connections are let in, beside the network's own; absent: none. */
  readonly acceptFrom?: readonly string[]
  readonly acceptMarkBit?: number
  /** Absent: firewalld's zone `trusted`. */
  readonly firewalldZone?: string
}

/** firewalld's zone whose target is ACCEPT, the upstream firewall's too. */
export const trustedZone = 'trusted'

/** Whose packets the network wants accepted: those of its bridge, or those of its routed pods' subnets. */
export function acceptedOf({ hostAccept, acceptSubnets }: NetworkSpec): readonly string[] {
  return hostAccept === undefined ? (acceptSubnets ?? []) : [hostAccept]
}

interface Firewalled {
  readonly firewall?: FirewallConf
  readonly nonMasqueradeCidrs: readonly string[]
}

type Accepting = Pick<NetworkSpec, 'hostAccept' | 'acceptSubnets' | 'acceptNew' | 'acceptMarkBit' | 'firewalldZone'>

/**
 * What a network's configuration asks for. `whose`: the bridge, or the subnets of routed pods; a network without
 * subnets has none yet, and learns them pod by pod.
 */
export function acceptOf(
  conf: Firewalled,
  whose: Pick<NetworkSpec, 'hostAccept' | 'acceptSubnets'>,
  subnets: readonly string[],
): Accepting {
  if (!wantsAccept(conf)) return {}
  return { ...whose, ...letIn(conf, subnets) }
}

/**
 * The same for a pod that another plugin made: its bridge, or for a veth on no bridge its subnets. What has no veth
 * (macvlan) is not forwarded by the host; an address without a subnet would be an element for each pod.
 */
export function acceptChained(
  conf: Firewalled,
  on: { readonly bridge: string | undefined; readonly hostLink: string | undefined },
  subnets: readonly string[],
): Accepting {
  if (!wantsAccept(conf)) return {}
  if (on.bridge !== undefined) return { hostAccept: on.bridge, ...letIn(conf, subnets) }
  const routed = on.hostLink === undefined ? [] : subnets.filter(isSubnet)
  return routed.length === 0 ? {} : { acceptSubnets: routed, ...letIn(conf, routed) }
}

export function wantsAccept({ firewall }: Pick<Firewalled, 'firewall'>): boolean {
  return firewall !== undefined && firewall.hostAccept !== 'off'
}

function letIn({ firewall, nonMasqueradeCidrs }: Firewalled, subnets: readonly string[]): Accepting {
  const from = [...new Set([...nonMasqueradeCidrs, ...(firewall?.acceptFrom ?? [])])].sort()
  const { acceptMarkBit, firewalldZone = trustedZone } = firewall ?? {}
  return {
    acceptNew: firewall?.hostAccept === 'established' ? 'none' : { to: subnets, from },
    ...(acceptMarkBit === undefined ? {} : { acceptMarkBit }),
    ...(firewalldZone === trustedZone ? {} : { firewalldZone }),
  }
}

/** What `now` asks for, with the subnets that were learnt before. */
export function mergedAccepts(old: NetworkSpec, now: NetworkSpec): Accepting {
  const union = (a: readonly string[] = [], b: readonly string[] = []) => [...new Set([...a, ...b])].sort()
  const { acceptSubnets, acceptNew } = now
  const before = old.acceptNew === undefined || old.acceptNew === 'none' ? [] : old.acceptNew.to
  return {
    ...(acceptSubnets && { acceptSubnets: union(old.acceptSubnets, acceptSubnets) }),
    ...(acceptNew && {
      acceptNew: acceptNew === 'none' ? acceptNew : { ...acceptNew, to: union(before, acceptNew.to) },
    }),
  }
}

// The keys of the upstream firewall plugin, and what trestle adds to them.

/**
 * The chain's default name, which changes nothing when it is left out. `firewall.backend` is checked nowhere: the
 * upstream takes every unknown word as "choose yourself".
 */
const harmlessAdminChains: readonly string[] = ['', 'CNI-ADMIN']

/** Bits of the packet mark that everybody's rules know: portmap 13, kube-proxy and kubelet 14 and 15. */
const takenBits: Readonly<Record<number, string>> = {
  13: 'portmap marks what it masquerades with it (0x2000)',
  14: 'kube-proxy marks what it masquerades with it (0x4000)',
  15: 'kubelet marks what it drops with it (0x8000)',
}

/**
 * Firewall settings. Throws CniError unsupportedField for a chain of the operator's own, invalidConfig for an entry of
 * acceptFrom that is no CIDR, a mark bit that others use, and a zone that firewalld could not have.
 */
export function readFirewall(raw: Raw | undefined): FirewallConf | undefined {
  if (raw === undefined) return undefined
  const chain = raw.iptablesAdminChainName ?? ''
  if (!harmlessAdminChains.includes(chain)) {
    const hint = "leave it out: trestle's accept stands behind the rules of FORWARD, so write yours there"
    throw unsupported(['firewall', 'iptablesAdminChainName'], chain, hint)
  }
  const acceptFrom = readCidrs(raw.acceptFrom ?? [], ['firewall', 'acceptFrom'])
  return {
    ingressPolicy: raw.ingressPolicy || 'open',
    hostAccept: raw.hostAccept ?? 'auto',
    ...(acceptFrom.length > 0 ? { acceptFrom } : {}),
    ...defined({ acceptMarkBit: readMarkBit(raw), firewalldZone: readZone(raw) }),
  }
}

function readMarkBit({ acceptMarkBit: bit }: Raw): number | undefined {
  const taken = bit === undefined ? undefined : takenBits[bit]
  if (taken === undefined) return bit
  const hint = 'use another bit from 0 to 31, or leave it out'
  throw configError(['firewall', 'acceptMarkBit'], `${bit} is taken: ${taken}`, { id: 'invalid-value', hint })
}

/** Names as firewalld checks them (firewall/core/io/zone.py); its own limit of length is 17. */
function readZone({ firewalldZone: zone = '' }: Raw): string | undefined {
  if (zone === '' || /^[\w/-]{1,17}$/.test(zone)) return zone || undefined
  const hint = 'use the name of a zone that `firewall-cmd --get-zones` lists, or leave it out for "trusted"'
  throw notA(['firewall', 'firewalldZone'], zone, { id: 'invalid-value', what: 'the name of a firewalld zone', hint })
}

// ingressPolicy: which bridges may not send to each other, as elements (docs/design.md, "Upstream firewall").

export function ingressPolicyOf({ firewall }: Pick<Firewalled, 'firewall'>): NetworkSpec['ingressPolicy'] {
  return firewall === undefined || firewall.ingressPolicy === 'open' ? undefined : firewall.ingressPolicy
}

/**
 * `same-bridge`: pods of this bridge and of other isolated bridges do not reach each other. `isolated`: nor do pods of
 * this bridge among themselves, whatever the policy of another network on it. `all`: the networks of the machine.
 * On a VLAN a pod's frame to its gateway's link is bridged, and filtered as one from the bridge to itself.
 */
export function isolationElements(network: NetworkSpec, all: readonly NetworkSpec[] = [network]): readonly Element[] {
  const links = network.ingressPolicy === undefined ? [] : fencedLinks(network)
  const isolated = all
    .filter(({ ingressPolicy }) => ingressPolicy === 'isolated')
    .map((each) => fencedLinks(each).at(-1))
  const open = links.filter((link) => !isolated.includes(link))
  return [
    ...links.map((link): Element => ({ set: 'fenced', key: [link] })),
    ...open.flatMap((from) => open.map((to): Element => ({ set: 'fencedpair', key: [from, to] }))),
  ]
}

/** The bridge, and last the link by which the host routes to its pods. */
function fencedLinks(network: NetworkSpec): readonly string[] {
  return [network.bridge?.name ?? network.ingressPolicyLink ?? [], gatewayOf(network)].flat()
}

/** On a VLAN the gateway of a bridge is a link of its own, and packets of pods come in by that. */
function gatewayOf({ bridge, gatewayLink }: NetworkSpec): readonly string[] {
  return [bridge?.gateway?.name ?? gatewayLink ?? []].flat()
}

/**
 * Of a link that is the pod's alone, and of its port on the bridge of another plugin. To its own link nobody but the
 * pod sends, when it reaches itself through a translation: both policies leave that open.
 */
export const isolation: Feature = {
  hostOps: (spec) => portIsolation(spec, true),
  hostTeardownOps: (spec) => portIsolation(spec, false),
  elements: ({ host, chained, ingressPolicy }) => {
    const link = chained === undefined ? host?.name : chained.hostLink
    const policy = chained?.ingressPolicy ?? ingressPolicy
    if (link === undefined || policy === undefined) return []
    return [
      { set: 'fenced', key: [link] },
      { set: 'fencedpair', key: [link, link] },
    ]
  },
}

function portIsolation({ chained }: AttachmentSpec, isolated: boolean): readonly Op[] {
  const dev = chained?.isolated ? chained.hostLink : undefined
  if (dev === undefined) return []
  return [{ in: 'host', kind: 'port.isolation', dev, isolated, why: `set the isolation of ${dev}` }]
}

// The mark that says to other firewalls "let this packet pass": one bit, and one for the whole machine, so that a
// chain of somebody else needs one constant accept whatever the number of networks and pods.

/**
 * 0x1000. Taken by others are 0x2000 (portmap, podman), 0x4000 and 0x8000 (kube-proxy, kubelet), 0xf00 (cilium, and
 * 0x100 on for docker swarm's services), 0xff0000 (tailscale; calico 0xffff0000, weave and kube-router 0x20000,
 * cilium's identities from 0x10000 on), 0x80000000 and 0xff (antrea), 0x80 (the AWS plugin); administrators count from
 * 0x1 on. Istio's 0x539 and ztunnel's are whole marks inside of pods; flannel reads kube-proxy's only. Of what
 * https://github.com/fwmark/registry lists only cilium's IPsec, which routes pods itself, has this bit, too.
 */
export const defaultMarkBit = 12

/**
 * The mark of these networks together; undefined where none wants an accept. Where configurations ask for several bits
 * the lowest is used: every call comes to the same one in whatever order they are changed, and none is refused for the
 * state of another. A network that names no bit follows one that does.
 */
export function acceptMark(networks: readonly NetworkSpec[]): number | undefined {
  const accepting = networks.filter((network) => acceptedOf(network).length > 0)
  if (accepting.length === 0) return undefined
  const bits = accepting.flatMap(({ acceptMarkBit }) => acceptMarkBit ?? [])
  return 2 ** (bits.length === 0 ? defaultMarkBit : Math.min(...bits))
}

// firewall.hostAccept as elements: whose packets other firewalls are to let pass, and whose new connections to them.
// The elements are the networks' own, filled when those are set up: no pod adds any. Their rules: tools/nft.ts.

/** New connections that are let in: to the pods' subnets `to`, from those and from `from`. */
interface NewConnections {
  readonly to: readonly string[]
  readonly from: readonly string[]
}

export function acceptElements(networks: readonly NetworkSpec[]): readonly Element[] {
  const links = networks.flatMap((network) => {
    const accepted = acceptedOf(network).filter((subject) => !subject.includes('/'))
    return accepted.length === 0 ? [] : [...accepted, ...gatewayOf(network)]
  })
  const subnets = networks.flatMap(acceptedOf).filter((subject) => subject.includes('/'))
  const lists = networks.map(newConnections).map(({ to, from }) => ({ first: to, second: [...to, ...from] }))
  return [
    ...[...new Set(links)].map((link): Element => ({ set: 'acceptlinks', key: [link] })),
    ...subnetElements('acceptnet', subnets),
    ...pairElements('acceptnew', lists),
  ]
}

export function newConnections({ acceptNew = 'none' }: NetworkSpec): NewConnections {
  return acceptNew === 'none' ? { to: [], from: [] } : acceptNew
}
