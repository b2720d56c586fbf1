// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept: whose packets other firewalls are to let pass, and what was put where for it. An accept in our
// table cannot override a drop in another one (nft(8), "base chains"), so this is the one exception to keeping out of
// other people's tables: our chain marks (accept-rules.ts), and theirs has one accept of the mark (accept-place.ts).

import type { FeatureConf } from '../../config/net-conf.ts'
import type { NetworkSpec } from '../../model/attachment.ts'
import type { NftChain } from '../../model/observed.ts'

/**
 * A chain of another program. `program`: the iptables variant that owns the chain; `table`: of iptables, absent for
 * filter, the only one that accepts are put into.
 */
export type ChainPlace =
  | { readonly kind: 'iptables'; readonly program: string; readonly chain: string; readonly table?: string }
  | ({ readonly kind: 'nft' } & NftChain)

/**
 * The firewalld zone of a bridge, or of a subnet of routed pods. `subject`: the bridge's name or the CIDR (no link's
 * name has a slash: dev_valid_name, net/core/dev.c).
 */
export interface ZoneMember {
  readonly subject: string
  readonly zone: string
}

/** The accept of the mark: one for the machine, in every chain that drops. */
export interface MarkAccept {
  readonly mark: number
  readonly places: readonly ChainPlace[]
}

/** firewalld's zone whose target is ACCEPT, the upstream firewall's too. */
export const trustedZone = 'trusted'

/** Whose packets the network wants accepted: those of its bridge, or those of its routed pods' subnets. */
export function acceptedOf({ hostAccept, acceptSubnets }: NetworkSpec): readonly string[] {
  return hostAccept === undefined ? (acceptSubnets ?? []) : [hostAccept]
}

type Accepting = Pick<NetworkSpec, 'hostAccept' | 'acceptSubnets' | 'acceptNew' | 'acceptMarkBit' | 'firewalldZone'>

/**
 * What a network's configuration asks for. `whose`: the bridge, or the subnets of routed pods; a network without
 * subnets has none yet, and learns them pod by pod.
 */
export function acceptOf(
  conf: FeatureConf,
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
  conf: FeatureConf,
  on: { readonly bridge: string | undefined; readonly hostLink: string | undefined },
  subnets: readonly string[],
): Accepting {
  if (!wantsAccept(conf)) return {}
  if (on.bridge !== undefined) return { hostAccept: on.bridge, ...letIn(conf, subnets) }
  const routed = on.hostLink === undefined ? [] : subnets.filter((subnet) => !/\/(32|128)$/.test(subnet))
  return routed.length === 0 ? {} : { acceptSubnets: routed, ...letIn(conf, routed) }
}

/** Whether other firewalls are to let anything pass. */
export function wantsAccept({ firewall }: FeatureConf): boolean {
  return firewall !== undefined && firewall.hostAccept !== 'off'
}

function letIn({ firewall, nonMasqueradeCidrs }: FeatureConf, subnets: readonly string[]): Accepting {
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

/** Whether two places are the same. */
export function samePlace(a: ChainPlace, b: ChainPlace): boolean {
  return placeText(a) === placeText(b)
}

/** A place in words. */
export function placeText(place: ChainPlace): string {
  switch (place.kind) {
    case 'iptables': {
      const table = place.table === undefined ? '' : `, table ${place.table}`
      return `chain ${place.chain} of ${place.program}${table}`
    }
    case 'nft':
      return `nft chain ${place.family} ${place.table} ${place.chain}`
    default:
      return place satisfies never
  }
}
