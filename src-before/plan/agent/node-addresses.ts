// SPDX-License-Identifier: Apache-2.0
// Which InternalIPs of a node are the node's, seen from this one. A kubelet without --node-ip lists any address of its
// machine, the bridge's too, and a node may write what it likes into its own status: a wrong address takes no range
// from another node, and no packet is sent by it.

import {
  type Address,
  type Cidr,
  firstOf,
  formatAddress,
  formatCidr,
  includes,
  lastOf,
  parseCidr,
} from '../../cni/address.ts'
import type { ClaimedRanges } from './node-ranges.ts'
import type { Problem } from './problem.ts'

/** A range that leads to a link of this node. `isOfLink`: the kernel's own route, for an address or an advertised prefix. */
export interface Subnet {
  readonly dst: string
  readonly dev: string
  readonly isOfLink: boolean
}

/** What this node has: addresses of its links, canonical, and the subnets that they are on, but for those of pods. */
export interface Here {
  readonly addresses: readonly string[]
  readonly subnets: readonly Subnet[]
}

/** A node and its InternalIPs. `texts`: the addresses, canonical; `ofOneLink`: those that no other node can send to. */
export interface Listed {
  readonly name: string
  readonly addresses: readonly Address[]
  readonly texts: readonly string[]
  readonly ofOneLink: readonly string[]
}

/**
 * What addresses are judged by. `nodes`: all of them, the eldest first. Where ranges may overlap the node's subnets
 * (`allowOverlap`), to be on a subnet proves nothing.
 */
interface AddressFacts {
  readonly self: string
  readonly nodes: readonly Listed[]
  readonly claimed: ClaimedRanges
  readonly here: Here
  readonly allowOverlap: boolean
}

interface Judged {
  readonly addresses: readonly string[]
  readonly problems: readonly Problem[]
}

export function addressJudge({ self, nodes, claimed, here, allowOverlap }: AddressFacts) {
  const owners = new Map<string, string>()
  for (const { name, texts } of nodes) for (const text of texts) if (!owners.has(text)) owners.set(text, name)
  const own = new Set(here.addresses)
  const subnets = here.subnets.flatMap(({ dst, isOfLink }) => {
    const cidr = parseCidr(dst)
    return cidr === undefined ? [] : { cidr, isOfLink }
  })
  const edges = new Map(subnets.flatMap(({ cidr }) => edgesOf(cidr)))
  return ({ name, addresses, texts, ofOneLink }: Listed): Judged => {
    const [kept, problems]: [string[], Problem[]] = [[], []]
    const tell = (text: string, why: string) =>
      problems.push({ id: 'BadInternalIP', node: name, text: `InternalIP ${text} ${why}` })
    for (const [at, address] of addresses.entries()) {
      const text = texts[at] ?? ''
      const holder = claimed.holding(address)
      // The node's own bridge, or the gateway on its pods' links: no mistake, and no way to it.
      if (holder?.node === name) continue
      const wrong = wrongWith(text)
      if (wrong !== undefined) tell(text, wrong)
      else if (holder !== undefined && !isOnSubnet(address, holder.cidr))
        tell(text, `is in podCIDR ${formatCidr(holder.cidr)} of node ${holder.node}`)
      else {
        kept.push(text)
        const owner = name === self && own.has(text) ? name : (owners.get(text) ?? name)
        if (owner !== name) tell(text, `is node ${owner}'s, too`)
      }
    }
    return { addresses: kept, problems }

    function wrongWith(text: string): string | undefined {
      if (ofOneLink.includes(text)) return 'is no address that other nodes can send to'
      const edge = edges.get(text)
      if (edge !== undefined) return `is the first or last address of ${edge}`
      return name !== self && own.has(text) ? "is this node's own" : undefined
    }
  }

  /** A range around it is no pod range, whoever has it (OverlapsHost): a wider route of a person overlaps none. */
  function isOnSubnet(address: Address, range: Cidr): boolean {
    const counts = subnets.filter(({ cidr, isOfLink }) => isOfLink || cidr.prefixLength >= range.prefixLength)
    return !allowOverlap && counts.some(({ cidr }) => includes(cidr, address))
  }
}

/** Network and broadcast address, which IPv4 alone has, and subnets of two addresses have not (RFC 3021). */
function edgesOf(subnet: Cidr): readonly (readonly [string, string])[] {
  if (subnet.family === 6 || subnet.prefixLength > 30) return []
  return [firstOf(subnet), lastOf(subnet)].map((edge) => [formatAddress(edge), formatCidr(subnet)] as const)
}

/** The listed addresses of this node that are on its links; all of them where nothing is known of the links. */
export function addressesHere(
  { addresses, texts }: Pick<Listed, 'addresses' | 'texts'>,
  here: Here,
): readonly Address[] {
  const own = new Set(here.addresses)
  return own.size === 0 ? addresses : addresses.filter((_, at) => own.has(texts[at] ?? ''))
}
