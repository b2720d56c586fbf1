// SPDX-License-Identifier: Apache-2.0
// What was seen of the kernel. Operations are compared with it; what was not looked at is undefined.

import type { PodRoute } from '../drivers/spec.ts'
import type { Element, TableFamily } from './nft-table.ts'

export interface ObservedLink {
  readonly name: string
  readonly index: number
  readonly mac: string
  readonly mtu: number
  readonly up: boolean
  readonly promisc: boolean
  readonly allmulti: boolean
  readonly txQLen: number
  /** Absent for a device of the machine. */
  readonly kind?: string
  readonly macvlanMode?: string
  readonly vlanFiltering?: boolean
  readonly master?: string
  readonly masterKind?: string
  readonly alias?: string
  readonly hairpin?: boolean
  readonly isolated?: boolean
  /** Index of the other end of a veth, or of the link that this one is on. */
  readonly peerIndex?: number
  /** The link that this one is on, by name. */
  readonly on?: string
  readonly addresses: readonly string[]
}

/** `dst`: a prefix. `table`: a number. */
export interface ObservedRoute extends PodRoute {
  readonly dev?: string
  readonly table: number
  /** By a router of the link (RTPROT_RA): its subnet, whatever address the link has. */
  readonly isAdvertised?: true
}

export interface ObservedRule {
  readonly from: string
  readonly table: number
}

export interface Place {
  readonly links: ReadonlyMap<string, ObservedLink>
  readonly routes: readonly ObservedRoute[]
  readonly rules?: readonly ObservedRule[]
}

export interface ObservedQueue {
  readonly rateBits?: number
  readonly burstBytes?: number
  /** The kind of the root qdisc, where it is not the kernel's own. */
  readonly root?: string
  readonly hasIngress: boolean
  readonly redirectTo?: string
}

/** One of our tables. */
export interface ObservedTable {
  /** The comments of the rules of each chain, in order; '' where a rule has none. */
  readonly chains: ReadonlyMap<string, readonly string[]>
  /** Chains whose policy drops, and whether the table is switched off: nobody of ours sets either. */
  readonly droppingChains: readonly string[]
  readonly isDormant: boolean
  /** By their key (nft-table.ts, elementKey). */
  readonly elements: ReadonlyMap<string, Element>
}

export interface Observed {
  readonly host?: Place
  readonly pod?: Place
  readonly queues?: ReadonlyMap<string, ObservedQueue>
  /** VLAN ids by port. */
  readonly vlans?: ReadonlyMap<string, readonly number[]>
  readonly tables?: ReadonlyMap<TableFamily, ObservedTable>
  /** Values by key (`net/...`), undefined where there is no such key. */
  readonly hostSysctls?: ReadonlyMap<string, string | undefined>
  readonly podSysctls?: ReadonlyMap<string, string | undefined>
}
