// SPDX-License-Identifier: Apache-2.0
// firewall.ingressPolicy and the part of firewall.hostAccept that is in our own table. An accept in one nftables table does
// not override a drop in another (nft(8), "base chains"): our chain marks what may pass, and host-accept.ts puts one
// accept of the mark into chains that drop.

import { isSubnet } from '../cni/addresses.ts'
import { unsupported } from '../cni/errors.ts'
import type { FirewallConf, OwnConf } from '../config/network-conf.ts'
import type { RawConfig } from '../config/schema.ts'
import type { NetworkSpec } from '../drivers/spec.ts'
import { setLink } from '../kernel/operation.ts'
import type { BareElement, Feature } from './feature.ts'
import { pairElements, prefixElements } from './masquerade.ts'

/** `backend` is not checked: the reference takes every unknown word as "choose yourself". Throws CniError 2. */
export function readFirewall(raw: RawConfig['firewall']): FirewallConf | undefined {
  if (raw === undefined) return undefined
  const { ingressPolicy, hostAccept } = raw
  const refuse = (key: 'iptablesAdminChainName' | 'firewalldZone', hint: string) => {
    throw unsupported(['firewall', key], raw[key], `leave it out${hint}`)
  }
  if (!['', 'CNI-ADMIN'].includes(raw.iptablesAdminChainName ?? ''))
    refuse('iptablesAdminChainName', ', and put rules of the administrator into a chain of the node')
  if (!['', 'trusted'].includes(raw.firewalldZone ?? ''))
    refuse('firewalldZone', ': docs/host.md has the command for firewalld')
  const policy = ingressPolicy === 'same-bridge' || ingressPolicy === 'isolated' ? { ingressPolicy } : {}
  return { ...policy, hostAccept: hostAccept !== 'off' }
}

/**
 * What the network asks other firewalls to accept. `links`: its bridge and VLAN gateway; routed pods have none, and their
 * subnets stand for them. An address without a subnet would be an element for each pod.
 */
export function acceptOf(
  { firewall, nonMasqueradeCidrs }: OwnConf,
  links: readonly string[],
  ranges: readonly string[],
): NetworkSpec['accept'] {
  if (!firewall?.hostAccept) return undefined
  const to = ranges.filter(isSubnet)
  const subnets = links.length > 0 ? [] : to
  return { links, subnets, to, from: [...new Set([...to, ...nonMasqueradeCidrs])].sort() }
}

/** A pod's own link: nobody but the pod sends to it, when it reaches itself through a translation. */
export const isolation: Feature = {
  elements: ({ fencedLink }) =>
    fencedLink
      ? [
          { set: 'fenced', key: [fencedLink] },
          { set: 'fencedpair', key: [fencedLink, fencedLink] },
        ]
      : [],
  ops: ({ chained }) => isolationOp(chained, true),
  undo: ({ chained }) => isolationOp(chained, false),
}

function isolationOp(chained: { hostLink?: string; isolatesPort?: boolean } | undefined, isolated: boolean) {
  const dev = chained?.isolatesPort ? chained.hostLink : undefined
  if (dev === undefined) return []
  return [setLink('host', dev, { isolated }, `set the isolation of ${dev}`, 'absent')]
}

/**
 * The elements of policies that networks share. As with the reference firewall plugin, `same-bridge` lets the pods of
 * one bridge reach each other and nobody reach them from another bridge; `isolated` not even that. Packets that a host
 * port translates are another bridge's, too.
 */
export function policyElements(networks: readonly NetworkSpec[]): readonly BareElement[] {
  const policies = networks.flatMap(({ ingressPolicy }) => ingressPolicy ?? [])
  // The last link is the one that the host routes by. On a VLAN that is the gateway's: a pod's frame to it is bridged, and
  // with br_netfilter filtered as one from the bridge to itself.
  const isolated = policies.flatMap(({ policy, links }) => (policy === 'isolated' ? links.slice(-1) : []))
  const elements: BareElement[] = []
  for (const { links } of policies) {
    const open = links.filter((link) => !isolated.includes(link))
    elements.push(...links.map((link): BareElement => ({ set: 'fenced', key: [link] })))
    for (const from of open) elements.push(...open.map((to): BareElement => ({ set: 'fencedpair', key: [from, to] })))
  }
  return elements
}

/** The elements of hostAccept that networks share. */
export function acceptElements(networks: readonly NetworkSpec[]): readonly BareElement[] {
  const accepts = networks.flatMap(({ accept }) => accept ?? [])
  const links = [...new Set(accepts.flatMap((accept) => accept.links))]
  const subnets = accepts.flatMap((accept) => accept.subnets)
  const pairs = accepts.map(({ to, from }) => ({ first: to, second: from }))
  return [
    ...links.map((link): BareElement => ({ set: 'acceptlinks', key: [link] })),
    ...prefixElements('acceptnet', subnets),
    ...pairElements('acceptnew', pairs),
  ]
}
