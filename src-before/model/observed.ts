// SPDX-License-Identifier: Apache-2.0
// What we may know about the kernel, as data: filled by system/kernel/observe.ts, compared by difference.ts.

import type { Elements } from './op.ts'

/** A network link. `addresses`: CIDRs. `peerIndex`: ifindex of a veth's other end, or of a macvlan's master. */
export interface ObservedLink {
  readonly name: string
  readonly index: number
  readonly mac: string
  readonly mtu: number
  readonly up: boolean
  readonly kind?: string
  readonly macvlanMode?: string
  readonly master?: string
  /** The kind of that: a bridge, openvswitch, a VRF. */
  readonly masterKind?: string
  readonly alias?: string
  readonly promisc: boolean
  /** Of a bridge. */
  readonly vlanFiltering?: boolean
  readonly allmulti: boolean
  readonly txqlen?: number
  readonly hairpin?: boolean
  readonly isolated?: boolean
  readonly peerIndex?: number
  /** The same by name, where it is in the same namespace. */
  readonly on?: string
  /** The id that this namespace has for that of a veth's other end. */
  readonly peerNetnsId?: number
  readonly addresses: readonly string[]
}

/** What of a link decides whether ranges and addresses of a network may be there; files of the kernel tell it too. */
export type AddressedLink = Pick<
  ObservedLink,
  'name' | 'mac' | 'kind' | 'vlanFiltering' | 'master' | 'alias' | 'addresses'
>

/** The links of the host as far as addresses go. */
export interface AddressedLinks {
  readonly links: ReadonlyMap<string, AddressedLink>
}

/** A route of the pod. `dst` is a CIDR. */
export interface ObservedRoute {
  readonly dst: string
  readonly gw?: string
  readonly dev?: string
  readonly priority?: number
  readonly mtu?: number
  readonly advmss?: number
  readonly src?: string
  /** RT_SCOPE_*; IPv4 only. */
  readonly scope?: number
  /** Where it is not boot. */
  readonly protocol?: string
}

/** A policy rule that looks a source up in a table. `from`: a CIDR. */
export interface ObservedRule {
  readonly from: string
  readonly table: number
}

export interface ObservedNamespace {
  readonly links: ReadonlyMap<string, ObservedLink>
  /** Routes by table number (rtnetlink(7)). Host: left empty. */
  readonly routes: ReadonlyMap<number, readonly ObservedRoute[]>
  /** Where they were looked at. */
  readonly rules?: readonly ObservedRule[]
}

/** Our nft table: the comments of its rules by chain, empty for a rule without; and the elements of its sets. */
export interface ObservedTable {
  /** The table is dormant, or something else that we never make it. */
  readonly hasFlags?: true
  /** Base chains with the policy drop, where policies were looked at. */
  readonly dropping?: readonly string[]
  readonly rules: ReadonlyMap<string, readonly string[]>
  readonly elements: Elements
}

export interface NftChain {
  readonly family: string
  readonly table: string
  readonly chain: string
}

/** Queueing on one link: a token bucket at the root, and where an ingress filter redirects to. */
export interface ObservedQueue {
  readonly rateBits?: number
  readonly burstBytes?: number
  readonly hasIngress: boolean
  /** The kind of the qdisc at the root, where it is not the kernel's own. */
  readonly root?: string
  readonly redirectTo?: string
}

/** What was looked at. A part that was not looked at is undefined; a table that is not there is 'absent'. */
export interface Observed {
  readonly host: ObservedNamespace
  readonly pod?: ObservedNamespace
  readonly table?: ObservedTable | 'absent'
  /** Our table in the bridge family, where it was looked at. */
  readonly bridgeTable?: ObservedTable | 'absent'
  /** Sysctls by key, `net/…`; undefined value: no such file. */
  readonly sysctls: ReadonlyMap<string, string | undefined>
  readonly podSysctls?: ReadonlyMap<string, string | undefined>
  readonly vlans?: ReadonlyMap<string, readonly number[]>
  readonly queues?: ReadonlyMap<string, ObservedQueue>
}

export const emptyNamespace: ObservedNamespace = { links: new Map(), routes: new Map() }
